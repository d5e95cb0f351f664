"""Records as API v3 writes them, in and out. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from headrace.client.error import ClientError
from headrace.gateway.rest.error import RestError, bad_request, cluster_error, needs_registry
from headrace.gateway.rest.produce.embedded_data import (
    from_base64,
    from_json,
    from_milliseconds,
    from_text,
    to_milliseconds,
)
from headrace.gateway.rest.produce.record import Placed, Record

_MOST_HEADERS: Final = 1000
_WITH_SCHEMA: Final = ("AVRO", "JSONSCHEMA", "PROTOBUF")
_OF_SCHEMA: Final = ("schema", "schema_id", "schema_version", "subject", "subject_name_strategy")


def read_record(fields: Mapping[str, Any]) -> tuple[Record, dict[str, str]]:
    """Return a record, and the types of its key and value as the response repeats them.

    Raises:
        RestError: it is not one.
    """
    types: dict[str, str] = {}
    data = {}
    for part in ("key", "value"):
        data[part], kind = _data(fields.get(part), part)
        if kind is not None:
            types[part] = kind
    record = Record(
        data["key"],
        data["value"],
        _headers(fields.get("headers")),
        to_milliseconds(fields.get("timestamp")),
        _partition(fields.get("partition_id")),
    )
    return record, types


def write_result(
    cluster_id: str,
    topic: str,
    record: Record,
    types: Mapping[str, str],
    outcome: Placed | ClientError,
) -> dict[str, Any]:
    """Return the response for one record."""
    if isinstance(outcome, ClientError):
        return cluster_error(outcome).document
    result: dict[str, Any] = {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": outcome.partition,
        "offset": outcome.offset,
        "timestamp": from_milliseconds(outcome.timestamp_ms),
    }
    for part, data in (("key", record.key), ("value", record.value)):
        if part in types:
            result[part] = {"type": types[part], "size": len(data or b"")}
    return result


def _data(field: Any, part: str) -> tuple[bytes | None, str | None]:
    if field is None:
        return None, None
    if not isinstance(field, dict):
        raise bad_request(f"{part} has to be an object with type and data.")
    kind, data = field.get("type"), field.get("data")
    if kind == "BINARY":
        return from_base64(data, f"The data of {part}"), kind
    if kind == "STRING":
        return from_text(data, f"The data of {part}"), kind
    if kind == "JSON":
        return from_json(data), kind
    if kind in _WITH_SCHEMA:
        raise needs_registry(str(kind))
    if kind is not None:
        raise bad_request(f"The type of {part} has to be BINARY, STRING or JSON.")
    if data is None and not any(field.get(each) for each in _OF_SCHEMA):
        return None, None
    raise needs_registry(f"a {part} without type")


def _headers(field: Any) -> tuple[tuple[str, bytes | None], ...]:
    if field is None:
        return ()
    if not isinstance(field, list) or len(field) > _MOST_HEADERS:
        raise bad_request(f"headers has to be a list of at most {_MOST_HEADERS}.")
    headers = []
    for each in field:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise bad_request("A header has to be an object with name and value.")
        headers.append((each["name"], from_base64(each.get("value"), "The value of a header")))
    return tuple(headers)


def _partition(field: Any) -> int | None:
    if field is None:
        return None
    if isinstance(field, bool) or not isinstance(field, int) or not 0 <= field < 2**31:
        raise RestError(400, "partition_id has to be a number from 0 on.")
    return field
