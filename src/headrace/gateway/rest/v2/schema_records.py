"""The records of a produce request of API v2 whose keys or values have schemas."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.gateway.rest.consumer.embedded_format import read_fields
from headrace.gateway.rest.json_document import read_object
from headrace.gateway.rest.produce.record import Record
from headrace.gateway.rest.schema.registry_serde import RegistrySerde
from headrace.gateway.rest.schema.schema_selector import missing, read_v2


class EncodedRecords(NamedTuple):
    """Records with framed keys and values, and the ids of their schemas."""

    records: list[Record]
    key_schema_id: int | None
    value_schema_id: int | None


def encode_records(
    serde: RegistrySerde, topic: str, body: bytes, form: str, most: int
) -> EncodedRecords:
    """Return the records of a body. Runs in a thread: it may ask the registry.

    Raises:
        RestError: 42201 to 42207.
    """
    document = read_object(body)
    rows = read_fields(document.get("records"), most)
    keys, key_id = _encoded(serde, topic, document, form, "key", [key for key, _, _ in rows])
    values, value_id = _encoded(
        serde, topic, document, form, "value", [value for _, value, _ in rows]
    )
    records = [
        Record(key, value, partition=partition)
        for key, value, (_, _, partition) in zip(keys, values, rows, strict=True)
    ]
    return EncodedRecords(records, key_id, value_id)


def _encoded(
    serde: RegistrySerde,
    topic: str,
    document: dict[str, Any],
    form: str,
    part: str,
    datas: Sequence[Any],
) -> tuple[list[bytes | None], int | None]:
    if all(each is None for each in datas):
        return [None] * len(datas), None
    named = read_v2(document, form, part)
    if named is None:
        raise missing(part)
    schema_id, encoded = serde.encode_all(topic, named, datas, key=part == "key")
    return encoded, schema_id
