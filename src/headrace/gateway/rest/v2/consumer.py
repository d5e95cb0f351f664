"""Consumer instances of API v2: made, subscribed, read, committed, deleted."""

import asyncio
import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote

from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.consumer.embedded_format import (
    BINARY,
    FORMATS,
    WITH_SCHEMA,
    content_type,
    format_of,
)
from headrace.gateway.rest.consumer.instance import (
    FETCH_BYTES,
    MOST_TOPICS,
    ConsumerInstance,
    InstanceConfig,
)
from headrace.gateway.rest.consumer.instances import Delivery
from headrace.gateway.rest.error import RestError, unprocessable
from headrace.gateway.rest.exchange import Exchange
from headrace.gateway.rest.json_document import read_object
from headrace.gateway.rest.request import NO_CONTENT, V2_TYPE, Answer
from headrace.gateway.rest.request_body import MOST_CONTROL_BYTES, take
from headrace.model.ids import TopicPartition

T = TypeVar("T")

LONGEST_READ_MS: Final = 30_000
DEFAULT_READ_MS: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MOST_PARTITIONS: Final = 10_000
_MARGIN_BYTES: Final = 64 << 10
_PIECE_BYTES: Final = 256 << 10
_AGAIN_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 10.0


async def create(exchange: Exchange) -> Answer:
    """Make an instance in a group."""
    group = exchange.request.path["group_name"]
    if len(group) > 249:
        raise _bad_config("the name of the group is too long")
    fields = await _document(exchange)
    config = replace(
        _config(group, fields, with_schemas=exchange.services.schemas is not None),
        owner=exchange.request.caller.name,
    )
    exchange.services.consumers.create(config)
    place = f"consumers/{quote(group, safe='')}/instances/{config.name}"
    uri = f"{exchange.services.base_url}/{place}"
    return _answer({"instance_id": config.name, "base_uri": uri})


async def delete(exchange: Exchange) -> Answer:
    await exchange.services.consumers.delete(*_place(exchange))
    return NO_CONTENT


async def subscribe(exchange: Exchange) -> Answer:
    """Subscribe to topics, or to a pattern; in place of what was subscribed before."""
    fields = await _document(exchange)
    topics, pattern = fields.get("topics"), fields.get("topic_pattern")
    if (topics is None) == (pattern is None):
        raise unprocessable("Write either topics or topic_pattern.")
    if topics is not None and (
        not isinstance(topics, list) or not all(isinstance(each, str) for each in topics)
    ):
        raise unprocessable("topics has to be a list of names.")
    topics = _few(topics or ())
    if pattern is not None and (not isinstance(pattern, str) or len(pattern) > 1000):
        raise unprocessable("topic_pattern has to be a regular expression.")
    caller = exchange.request.caller
    caller.check(Right.READ, topics)
    may_read = partial(caller.can, Right.READ)
    await _run(exchange, lambda each: each.subscribe(topics, pattern, may_read))
    return NO_CONTENT


async def get_subscription(exchange: Exchange) -> Answer:
    return _answer({"topics": await _run(exchange, lambda each: each.topics)})


async def unsubscribe(exchange: Exchange) -> Answer:
    await _run(exchange, ConsumerInstance.unsubscribe)
    return NO_CONTENT


async def assign(exchange: Exchange) -> Answer:
    """Assign partitions by hand."""
    partitions = _partitions((await _document(exchange)).get("partitions"))
    _check_topics(exchange, partitions)
    await _run(exchange, lambda each: each.assign(partitions))
    return NO_CONTENT


async def get_assignments(exchange: Exchange) -> Answer:
    found = await _run(exchange, lambda each: each.partitions)
    data = [{"topic": each.topic, "partition": each.partition} for each in found]
    return _answer({"partitions": data})


async def seek(exchange: Exchange) -> Answer:
    """Set the next offsets to read."""
    offsets = _offsets((await _document(exchange)).get("offsets"))
    await _run(exchange, lambda each: each.seek(offsets))
    return NO_CONTENT


async def seek_to_beginning(exchange: Exchange) -> Answer:
    return await _seek_to_edge(exchange, is_end=False)


async def seek_to_end(exchange: Exchange) -> Answer:
    return await _seek_to_edge(exchange, is_end=True)


async def commit(exchange: Exchange) -> Answer:
    """Commit that records were read: these, or all that were returned."""
    fields = await _document(exchange)
    listed = fields.get("offsets")
    # A client names the last record it has read; the group goes on with the one behind it.
    offsets = None if listed is None else {p: at + 1 for p, at in _offsets(listed).items()}
    _check_topics(exchange, offsets or ())
    await _run(exchange, lambda each: each.commit(offsets))
    return Answer(status=200)


async def committed(exchange: Exchange) -> Answer:
    """Return the committed offsets of partitions."""
    partitions = _partitions((await _document(exchange)).get("partitions"))
    _check_topics(exchange, partitions)
    found = await _run(exchange, lambda each: each.committed(partitions))
    data = [
        {"topic": each.topic, "partition": each.partition, "offset": offset, "metadata": ""}
        for each, offset in found.items()
    ]
    return _answer({"offsets": data})


async def read(exchange: Exchange) -> None:
    """Return records as soon as there are some, or none after the timeout.

    Who waits for records holds no room of the responses. Records for which there is none stay in
    the log, and are read again when there is.
    """
    consumers = exchange.services.consumers
    place = _place(exchange)
    config = consumers.config(*place)
    exchange.request.caller.check(Right.READ, consumers.sources(*place))
    form = format_of(exchange.request.headers.get("accept", ""))
    if form is not None and form != config.form:
        raise RestError(
            406,
            "The requested embedded data format does not match the deserializer for this "
            "consumer instance",
            40601,
        )
    request = exchange.request
    timeout_ms = request.query_number("timeout", -1, 2**31 - 1)
    if timeout_ms is None or timeout_ms < 0:
        timeout_ms = config.request_timeout_ms
    most_bytes = request.query_number("max_bytes", -1, 2**62) or FETCH_BYTES
    if not 0 < most_bytes <= FETCH_BYTES:
        most_bytes = FETCH_BYTES
    seconds = min(timeout_ms, LONGEST_READ_MS) / 1000
    kind, share = content_type(config.form), exchange.response_share
    size = 2 * most_bytes + _MARGIN_BYTES
    loop = asyncio.get_running_loop()

    def has_room() -> bool:
        asked = asyncio.run_coroutine_threadsafe(exchange.has_room(size), loop)
        return asked.result(_ASK_SECONDS)

    async with consumers.reading(*place, most_bytes, seconds, has_room) as delivery:
        if delivery.has_room:
            share.shrink(len(delivery.body))
            await _deliver(exchange, delivery, kind)
    if not delivery.has_room:
        await take(share, size)
        async with consumers.reading(*place, most_bytes, _AGAIN_SECONDS) as delivery:
            share.shrink(len(delivery.body))
            await _deliver(exchange, delivery, kind)
    await exchange.write(b"", more=False)


async def _deliver(exchange: Exchange, delivery: Delivery, kind: str) -> None:
    """Send records all but for the end of the response, and note whether the client has them."""
    body = delivery.body
    await exchange.start(200, {"content-length": str(len(body)), "content-type": kind})
    for at in range(0, len(body), _PIECE_BYTES):
        await exchange.write(body[at : at + _PIECE_BYTES])
    await exchange.write(b"")  # waits until the client has read what is before it
    delivery.is_sent = not await exchange.has_gone()


def _config(group: str, fields: dict[str, Any], *, with_schemas: bool) -> InstanceConfig:
    name = fields.get("name") or fields.get("id") or f"rest-consumer-{uuid.uuid4()}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _bad_config("name has letters, digits and . _ -")
    form = fields.get("format") or BINARY
    form = form.lower() if isinstance(form, str) else ""
    if form in WITH_SCHEMA and not with_schemas:
        raise _bad_config(
            f"format {form} needs a schema registry, and this proxy was started without "
            "--registry URL: write binary or json"
        )
    if form not in FORMATS + WITH_SCHEMA:
        raise _bad_config("format is binary, json, avro, jsonschema or protobuf")
    reset = fields.get("auto.offset.reset", "latest")
    if reset not in ("earliest", "latest"):
        raise _bad_config("auto.offset.reset is earliest or latest")
    auto_commit = str(fields.get("auto.commit.enable", "true")).lower()
    if auto_commit not in ("true", "false"):
        raise _bad_config("auto.commit.enable is true or false")
    text = str(fields.get("consumer.request.timeout.ms", DEFAULT_READ_MS))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise _bad_config("consumer.request.timeout.ms is a number of milliseconds")
    return InstanceConfig(group, name, form, reset == "earliest", auto_commit == "true", int(text))


async def _seek_to_edge(exchange: Exchange, *, is_end: bool) -> Answer:
    partitions = _partitions((await _document(exchange)).get("partitions"))
    await _run(exchange, lambda each: each.seek_to_edge(partitions, is_end=is_end))
    return NO_CONTENT


async def _document(exchange: Exchange) -> dict[str, Any]:
    """Return the body; an empty object if there is none."""
    format_of(exchange.request.headers.get("content-type", ""))
    body = await exchange.body(MOST_CONTROL_BYTES)
    return read_object(body) if body.strip() else {}


async def _run(exchange: Exchange, work: Callable[[ConsumerInstance], T]) -> T:
    return await exchange.services.consumers.run(*_place(exchange), work)


def _place(exchange: Exchange) -> tuple[str, str]:
    """Return the group and the name of an instance of the caller's own.

    Raises:
        RestError: there is none.
    """
    path = exchange.request.path
    place = path["group_name"], path["instance"]
    if exchange.services.consumers.config(*place).owner != exchange.request.caller.name:
        raise RestError(404, "Consumer instance not found.", 40403)
    return place


def _check_topics(exchange: Exchange, partitions: Iterable[TopicPartition]) -> None:
    """Refuse partitions of topics that the caller may not read."""
    exchange.request.caller.check(Right.READ, {each.topic for each in partitions})


def _few(topics: Iterable[str]) -> set[str]:
    """Return topics, each once; refuse so many that to look up rights to them takes long."""
    found = set(topics)
    if len(found) > MOST_TOPICS:
        raise unprocessable(f"A request names at most {MOST_TOPICS} topics.")
    return found


def _partitions(field: Any) -> list[TopicPartition]:
    if not isinstance(field, list) or len(field) > _MOST_PARTITIONS:
        raise unprocessable("partitions has to be a list.")
    found = [_partition(each) for each in field]
    _few(each.topic for each in found)
    return found


def _partition(field: Any) -> TopicPartition:
    if not isinstance(field, dict) or not isinstance(field.get("topic"), str):
        raise unprocessable("A partition has to be an object with topic and partition.")
    return TopicPartition(field["topic"], _number(field, "partition", 2**31 - 1))


def _offsets(field: Any) -> dict[TopicPartition, int]:
    if not isinstance(field, list) or len(field) > _MOST_PARTITIONS:
        raise unprocessable("offsets has to be a list.")
    found = {_partition(each): _number(each, "offset", 2**63 - 2) for each in field}
    _few(each.topic for each in found)
    return found


def _number(field: dict[str, Any], name: str, most: int) -> int:
    value = field.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise unprocessable(f"{name} has to be a number from 0 on.")
    return value


def _bad_config(what: str) -> RestError:
    return unprocessable(f"Invalid consumer configuration: {what}", 42204)


def _answer(document: Any) -> Answer:
    return Answer(document, content_type=V2_TYPE)
