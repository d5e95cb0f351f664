"""Produces the records of one request of API v2."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from headrace.client.error import BrokerError, ClientError
from headrace.gateway.rest.consumer.embedded_format import (
    BINARY,
    JSON,
    WITH_SCHEMA,
    format_of,
    read_records,
)
from headrace.gateway.rest.error import RestError, cluster_error, needs_registry
from headrace.gateway.rest.exchange import Exchange
from headrace.gateway.rest.json_document import read_object, write_json
from headrace.gateway.rest.produce.producer import Outcomes
from headrace.gateway.rest.produce.record import Placed, PlacedRun, Record
from headrace.gateway.rest.request import V2_TYPE, Answer, Request
from headrace.gateway.rest.request_body import MOST_BODY_BYTES
from headrace.gateway.rest.v2.schema_records import encode_records
from headrace.gateway.rest.v2.text_records import cut_texts
from headrace.gateway.rest.v2.topic import topic_error

MOST_RECORDS: Final = 10_000
_SUCCESS: Final = ',"error_code":null,"error":null}'


async def produce(exchange: Exchange) -> Answer | None:
    """Produce to a topic; keys and the proxy choose partitions where records name none."""
    return await _produce(exchange, None)


async def produce_to_partition(exchange: Exchange) -> Answer | None:
    """Produce to one partition."""
    return await _produce(exchange, partition_index(exchange.request))


def partition_index(request: Request) -> int:
    """Return the partition that a path names.

    Raises:
        RestError: 40402, it is no number.
    """
    text = request.path["partition_id"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise RestError(404, "Partition not found.", 40402)
    return int(text)


async def _produce(exchange: Exchange, index: int | None) -> Answer:
    form = format_of(exchange.request.headers.get("content-type", "")) or BINARY
    schemas = exchange.services.schemas
    if form in WITH_SCHEMA and schemas is None:
        raise needs_registry(form.upper())
    topic = exchange.request.path["topic_name"]
    producer = exchange.services.producer
    try:
        leaders = await producer.find(topic)
    except BrokerError as error:
        raise topic_error(error) from None
    if index is not None and index not in leaders.leaders:
        raise RestError(404, "Partition not found.", 40402)
    body = await exchange.body(MOST_BODY_BYTES)
    key_id = value_id = None
    if form in WITH_SCHEMA and schemas is not None:
        records, key_id, value_id = await schemas.run(
            len(body), partial(encode_records, schemas, topic, body, form, MOST_RECORDS)
        )
        await exchange.check_present()
        if index is not None:
            records = [each._replace(partition=index) for each in records]
    else:
        records = await exchange.parse(
            len(body), body.count(b"{"), partial(parse_records, body, form, index)
        )
    outcomes = await (await exchange.put(topic, leaders, records))
    text = await exchange.parse(
        0, len(records), partial(write_offsets, records, outcomes, key_id, value_id)
    )
    return Answer(body=text, content_type=V2_TYPE)


def parse_records(body: bytes, form: str, index: int | None) -> list[Record]:
    """Return the records of a body; all go to the partition `index`, if there is one.

    Raises:
        RestError: it has none.
    """
    records = cut_texts(body, MOST_RECORDS) if form == JSON else None
    return _in_partition(_read(body, form) if records is None else records, index)


def parse_few_records(
    body: bytes, form: str, index: int | None, most_objects: int
) -> list[Record] | None:
    """Return the records of a body that has few; None if it has more objects, in records too.

    Raises:
        RestError: it has none.
    """
    records = cut_texts(body, min(most_objects, MOST_RECORDS)) if form == JSON else None
    if records is None:
        if body.count(b"{") > most_objects:
            return None
        records = _read(body, form)
    return _in_partition(records, index)


def _read(body: bytes, form: str) -> list[Record]:
    # Without a backslash in the document no text in it has anything to escape.
    has_escapes = b"\\" in body
    found = read_object(body).get("records")
    return read_records(found, form, MOST_RECORDS, has_escapes=has_escapes)


def _in_partition(records: list[Record], index: int | None) -> list[Record]:
    if index is None:
        return records
    return [each._replace(partition=index) for each in records]


def write_offsets(
    records: Sequence[Record],
    outcomes: Outcomes,
    key_id: int | None = None,
    value_id: int | None = None,
) -> bytes:
    """Return the response to a produce request as JSON."""
    # What `write_json` makes of it, sooner.
    if isinstance(outcomes, PlacedRun):
        before = f'{{"partition":{outcomes.partition},"offset":'
        numbers = f"{_SUCCESS},{before}".join(map(str, outcomes.offsets))
        offsets = f"{before}{numbers}{_SUCCESS}"
    else:
        offsets = ",".join(
            [
                f'{{"partition":{each.partition},"offset":{each.offset}{_SUCCESS}'
                if isinstance(each, Placed)
                else write_json(_failure(record, each)).decode()
                for record, each in zip(records, outcomes, strict=True)
            ]
        )
    key, value = (f"{each:d}" if each is not None else "null" for each in (key_id, value_id))
    ids = f'"key_schema_id":{key},"value_schema_id":{value}'
    return f'{{"offsets":[{offsets}],{ids}}}'.encode()


def _failure(record: Record, error: ClientError) -> dict[str, Any]:
    found = cluster_error(error)
    code = 50003 if found.code == 50003 else 50002
    return {
        "partition": record.partition,
        "offset": None,
        "error_code": code,
        "error": found.message,
    }
