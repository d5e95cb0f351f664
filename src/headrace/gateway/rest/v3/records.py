"""Produces records: one JSON object after the other on one connection, or a batch with ids.

Rule 1: answers come in the order of the records, each as soon as it and those before it are known.
The HTTP status is 200 once records are accepted; each answer has its own `error_code`.
Rule 2: a record that cannot be parsed gets an error and the next one is read. After something that
is no JSON object, nothing can be read: its error is the last answer.
Rule 3: answers to a request with a `Content-Length` wait for its end, within bounds: such clients
read no answer before they have sent everything.
Rule 4: at most `MOST_PENDING` groups of records of a connection wait for their answers, and their
bytes count against the budget of bodies. A client that does not read its answers is not read from
either.
Rule 5: a record that has begun must come at the pace of any body; between records a client may
pause, and holds nothing then.
Rule 6: a registry that does not answer is asked once per request: its error is the answer to all
further records. Nothing is written for a client that went while the registry was waited for.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeGuard

import structlog

from headrace.client.error import ClientError
from headrace.gateway.http.asgi import Message, Receive
from headrace.gateway.http.bounded_body import (
    FIRST_SECONDS,
    LEAST_BYTES_PER_SECOND,
    Disconnected,
    declared_size,
)
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import Refused, RestError, bad_request
from headrace.gateway.rest.exchange import RECORD_BYTES, Exchange
from headrace.gateway.rest.json_document import read_object, write_json
from headrace.gateway.rest.json_splitter import JsonSplitter
from headrace.gateway.rest.produce.producer import Outcomes, TopicLeaders
from headrace.gateway.rest.request import JSON_TYPE, Answer
from headrace.gateway.rest.request_body import (
    MOST_BODY_BYTES,
    take,
)
from headrace.gateway.rest.schema.registry_serde import UNREACHABLE, RegistrySerde
from headrace.gateway.rest.v3.record_document import (
    NeedsSchema,
    ReadRecord,
    read_record,
    write_result,
)

log = structlog.get_logger()

MOST_PENDING: Final = 1000
"""Groups of records: those that came in one piece, in parts of `MOST_GROUP_RECORDS`."""

MOST_GROUP_RECORDS: Final = 1000
MOST_RECORD_BYTES: Final = 2 << 20
MOST_BATCH_ENTRIES: Final = 10_000
IDLE_SECONDS: Final = 300.0
"""How long a connection may stay open without a record."""

_Parsed = ReadRecord | RestError
"""A record with its types, or why it is none."""


@dataclass(slots=True)
class _Group:
    """Records that came in one piece.

    Attributes:
        parsed: each with its types, or why it is none.
        size: in bytes, which it holds of the budget.
    """

    parsed: list[_Parsed]
    placed: "asyncio.Future[Outcomes] | None"
    size: int


class _Pieces:
    """The pieces of a body that comes.

    Attributes:
        failure: of the registry; the answer to all further records.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._early: Message | None = None
        self.failure: RestError | None = None

    async def next(self) -> Message:
        """Return the next piece.

        Raises:
            Disconnected: the client has gone.
        """
        message, self._early = self._early, None
        message = message or await self._receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        return message

    async def has_gone(self) -> bool:
        """Return whether the client has disconnected, without waiting. No piece is lost."""
        try:
            async with asyncio.timeout(0):
                self._early = self._early or await self._receive()
        except TimeoutError:
            return False
        return bool(self._early["type"] == "http.disconnect")


async def produce(exchange: Exchange) -> Answer | None:
    """Produce records, and answer each."""
    cluster_id, topic, leaders = await _prepare(exchange)
    pending: asyncio.Queue[_Group | None] = asyncio.Queue(MOST_PENDING)
    reader = asyncio.ensure_future(_read(exchange, topic, leaders, pending))
    try:
        await _answer(exchange, cluster_id, topic, pending)
        return None
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def _read(
    exchange: Exchange, topic: str, leaders: TopicLeaders, pending: "asyncio.Queue[_Group | None]"
) -> None:
    """Read records, and begin to write them."""
    splitter = JsonSplitter(MOST_RECORD_BYTES)
    pieces = _Pieces(exchange.receive)
    begin = partial(_begin, exchange, pieces, topic, leaders)
    loop = asyncio.get_running_loop()
    held = 0
    waited = 0.0  # for the rest of the record that is incomplete
    more = True
    try:
        while more:
            began = loop.time()
            async with asyncio.timeout(_patience(splitter.held_bytes, waited)):
                message = await pieces.next()
            waited += loop.time() - began
            exchange.request.caller.check(Right.WRITE, (topic,))
            piece = message.get("body", b"")
            more = bool(message.get("more_body"))
            await take(exchange.share, len(piece))
            held += len(piece)
            documents, error = await exchange.parse(
                len(piece), piece.count(b"{"), partial(splitter.feed, piece)
            )
            if not more and error is None:
                error = _unfinished(splitter)
            if documents or not splitter.held_bytes:
                waited = 0.0
            while len(documents) > MOST_GROUP_RECORDS:
                part, documents = documents[:MOST_GROUP_RECORDS], documents[MOST_GROUP_RECORDS:]
                size = await _take_records(exchange, part)
                await pending.put(await begin(part, None, size))
            size = held - splitter.held_bytes + await _take_records(exchange, documents)
            group = await begin(documents, error, size)
            held = splitter.held_bytes
            if group is not None:
                await pending.put(group)
            else:
                exchange.share.shrink(exchange.share.taken - size)
            if error is not None:
                break
    except TimeoutError:
        await pending.put(_failed(RestError(408, "No record came for too long.")))
    except Disconnected:
        pass
    except Refused as refusal:
        await pending.put(_failed(refusal.error))
    except RestError as error:  # the caller may no longer write
        await pending.put(_failed(error))
    except Exception:  # the answers would wait for ever
        log.exception("rest_produce_failed")
        await pending.put(_failed(RestError(500, "Internal Server Error")))
    await pending.put(None)


async def _take_records(exchange: Exchange, documents: Sequence[bytes]) -> int:
    """Take what records hold beyond their own bytes; return how much that is."""
    size = len(documents) * RECORD_BYTES
    await take(exchange.share, size)
    return size


def _patience(held_bytes: int, waited: float) -> float:
    """Return for how many seconds the next piece may fail to come."""
    if not held_bytes:
        return IDLE_SECONDS
    return max(0.0, FIRST_SECONDS + held_bytes / LEAST_BYTES_PER_SECOND - waited)


def _failed(error: RestError) -> _Group:
    return _Group([error], None, 0)


async def _begin(
    exchange: Exchange,
    pieces: _Pieces,
    topic: str,
    leaders: TopicLeaders,
    documents: Sequence[bytes],
    error: RestError | None,
    size: int,
) -> _Group | None:
    parsed: list[_Parsed]
    if pieces.failure is not None:
        parsed = [pieces.failure for _ in documents]
    else:
        parsed = await _parse_with_schemas(exchange, pieces, topic, documents)
    if error is not None:
        parsed.append(error)
    if not parsed:
        return None
    records = [each[0] for each in parsed if not isinstance(each, RestError)]
    placed = await exchange.put(topic, leaders, records) if records else None
    return _Group(parsed, placed, size)


async def _parse_with_schemas(
    exchange: Exchange, pieces: _Pieces, topic: str, documents: Sequence[bytes]
) -> "list[_Parsed]":
    size = sum(map(len, documents))
    parsed = await exchange.parse(size, len(documents), partial(_parse_all, documents))
    schemas = exchange.services.schemas
    if schemas is None or not any(isinstance(each, NeedsSchema) for each in parsed):
        return parsed
    try:
        parsed = await schemas.run(
            size + len(documents) * RECORD_BYTES, partial(_parse_all, documents, schemas, topic)
        )
    except RestError as failure:
        parsed = [failure.detached() for _ in documents]
    pieces.failure = next((each for each in parsed if _is_unreachable(each)), None)
    if await pieces.has_gone():
        raise Disconnected
    return parsed


async def _answer(
    exchange: Exchange, cluster_id: str, topic: str, pending: "asyncio.Queue[_Group | None]"
) -> None:
    """Send answers in order."""
    waits = 0 < declared_size(exchange.request.headers) <= MOST_BODY_BYTES
    waiting: list[bytes] = []
    started = False
    while (group := await pending.get()) is not None:
        waiting.append(await _lines(exchange, group, cluster_id, topic))
        exchange.share.shrink(max(0, exchange.share.taken - group.size))
        waits = waits and await exchange.has_room(len(waiting[-1]))
        if waits:
            continue
        if not started:
            await exchange.start(200, {"content-type": JSON_TYPE})
            started = True
        for each in waiting:
            await exchange.write(each)
        waiting.clear()
        exchange.response_share.give_back()
    if not started:
        await exchange.start(200, {"content-type": JSON_TYPE})
    for each in waiting:
        await exchange.write(each)
    await exchange.write(b"", more=False)


async def _lines(exchange: Exchange, group: _Group, cluster_id: str, topic: str) -> bytes:
    outcomes: Outcomes = []
    failure: ClientError | None = None
    if group.placed is not None:
        try:
            outcomes = await group.placed
        except ClientError as error:
            failure = error
    work = partial(_text, group, cluster_id, topic, outcomes, failure)
    return await exchange.parse(0, len(group.parsed), work)


def _text(
    group: _Group, cluster_id: str, topic: str, outcomes: Outcomes, failure: ClientError | None
) -> bytes:
    left = iter(outcomes)
    lines = []
    for each in group.parsed:
        if isinstance(each, RestError):
            lines.append(write_json(each.document))
            continue
        record, types = each
        outcome = failure if failure is not None else next(left)
        lines.append(write_json(write_result(cluster_id, topic, record, types, outcome)))
    return b"".join(line + b"\r\n" for line in lines)


async def produce_batch(exchange: Exchange) -> Answer | None:
    """Produce the entries of a batch, and answer which succeeded and which failed."""
    cluster_id, topic, leaders = await _prepare(exchange)
    body = await exchange.body(MOST_BODY_BYTES)
    entries = await exchange.parse(len(body), body.count(b"{"), partial(_entries, body))
    schemas = exchange.services.schemas
    if schemas is not None and any(isinstance(each, NeedsSchema) for _, each in entries):
        size = len(body) + len(entries) * RECORD_BYTES
        entries = await schemas.run(size, partial(_entries, body, schemas, topic))
        await exchange.check_present()
    records = [each[0] for _, each in entries if not isinstance(each, RestError)]
    outcomes = await (await exchange.put(topic, leaders, records))
    text = await exchange.parse(
        0, len(entries), partial(_batch_text, cluster_id, topic, entries, outcomes)
    )
    return Answer(body=text, status=207)


def _batch_text(
    cluster_id: str,
    topic: str,
    entries: Sequence[tuple[str, _Parsed]],
    outcomes: Outcomes,
) -> bytes:
    successes: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    left = iter(outcomes)
    for name, each in entries:
        if isinstance(each, RestError):
            failures.append({"id": name, **each.document})
            continue
        outcome = next(left)
        result = write_result(cluster_id, topic, *each, outcome)
        if isinstance(outcome, ClientError):
            failures.append({"id": name, **result})
        else:
            result.pop("error_code")
            successes.append({"id": name, **result})
    return write_json({"successes": successes, "failures": failures})


async def _prepare(exchange: Exchange) -> tuple[str, str, TopicLeaders]:
    """Return the cluster and the topic of a request.

    Raises:
        RestError: one of them does not exist, or the body is of a wrong type.
    """
    request = exchange.request
    content_type = request.headers.get("content-type", JSON_TYPE).partition(";")[0].strip().lower()
    if content_type != JSON_TYPE:
        raise RestError(415, f"Content-Type has to be {JSON_TYPE}.")
    cluster_id = await exchange.services.cluster.cluster_id()
    if request.path["cluster_id"] != cluster_id:
        raise RestError(404, f"Cluster {request.path['cluster_id']} cannot be found.")
    topic = request.path["topic_name"]
    return cluster_id, topic, await exchange.services.producer.find(topic)


def _unfinished(splitter: JsonSplitter) -> RestError | None:
    try:
        splitter.end()
    except RestError as error:
        return error
    return None


def _is_unreachable(parsed: _Parsed | None) -> TypeGuard[RestError]:
    return isinstance(parsed, RestError) and parsed.code == UNREACHABLE


def _parse_all(
    documents: Sequence[bytes], schemas: RegistrySerde | None = None, topic: str = ""
) -> list[_Parsed]:
    found: list[_Parsed] = []
    for each in documents:
        last = found[-1] if found else None
        found.append(last if _is_unreachable(last) else _parse(each, schemas, topic))
    return found


def _parse(document: bytes, schemas: RegistrySerde | None, topic: str) -> _Parsed:
    try:
        return read_record(read_object(document), schemas, topic)
    except RestError as error:
        return error.detached()


def _entries(
    body: bytes, schemas: RegistrySerde | None = None, topic: str = ""
) -> list[tuple[str, _Parsed]]:
    entries = read_object(body).get("entries")
    if not isinstance(entries, list) or not 0 < len(entries) <= MOST_BATCH_ENTRIES:
        raise bad_request(f"entries has to be a list of 1 to {MOST_BATCH_ENTRIES} records.")
    found: list[tuple[str, _Parsed]] = []
    names: set[str] = set()
    for each in entries:
        name = each.get("id") if isinstance(each, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= 80 or name in names:
            raise bad_request("Each entry needs an id of its own, a text of 1 to 80 letters.")
        names.add(name)
        if found and _is_unreachable(last := found[-1][1]):
            found.append((name, last))
            continue
        try:
            found.append((name, read_record(each, schemas, topic)))
        except RestError as error:
            found.append((name, error.detached()))
    return found
