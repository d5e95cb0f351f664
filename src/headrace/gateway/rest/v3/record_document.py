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
from headrace.gateway.rest.schema.registry_serde import RegistrySerde, described
from headrace.gateway.rest.schema.schema_selector import TYPES, read_v3

_MOST_HEADERS: Final = 1000
_NAMES: Final = {each: name for name, each in TYPES.items()}
_OF_SCHEMA: Final = ("schema", "schema_id", "schema_version", "subject", "subject_name_strategy")


ReadRecord = tuple[Record, dict[str, dict[str, Any]]]
"""A record, and what the response repeats of its key and its value."""


class NeedsSchema(RestError):
    """A record whose key or value can be read only with a schema."""


def read_record(
    fields: Mapping[str, Any], schemas: RegistrySerde | None = None, topic: str = ""
) -> ReadRecord:
    """Return a record.

    Args:
        schemas: encodes what has a schema, and may ask the registry: call it in a thread then.

    Raises:
        NeedsSchema: it has a schema, and there is no `schemas`.
        RestError: it is not one.
    """
    types: dict[str, dict[str, Any]] = {}
    data: dict[str, bytes | None] = {}
    for part in ("key", "value"):
        field = fields.get(part)
        if schemas is not None and isinstance(field, dict) and _has_schema(field):
            data[part], types[part] = _with_schema(field, part, schemas, topic)
            continue
        data[part], kind = _data(field, part)
        if kind is not None:
            types[part] = {"type": kind}
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
    types: Mapping[str, Mapping[str, Any]],
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
            result[part] = {**types[part], "size": len(data or b"")}
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
    if isinstance(kind, str) and kind in TYPES:
        raise _needs_schema(kind)
    if kind is not None:
        raise bad_request(f"The type of {part} has to be BINARY, STRING or JSON.")
    if not _has_schema(field):
        return None, None
    raise _needs_schema(f"a {part} without type")


def _has_schema(field: Any) -> bool:
    """Return whether a key or a value has a schema, or has no type and so needs one."""
    if not isinstance(field, dict):
        return False
    kind = field.get("type")
    if kind is not None:
        return isinstance(kind, str) and kind in TYPES
    return field.get("data") is not None or any(field.get(each) for each in _OF_SCHEMA)


def _with_schema(
    field: Mapping[str, Any], part: str, schemas: RegistrySerde, topic: str
) -> tuple[bytes | None, dict[str, Any]]:
    schema = schemas.schema(topic, read_v3(field, part), key=part == "key")
    encoded = schemas.encode(field.get("data"), schema)
    return encoded, {"type": _NAMES[schema.type], **described(schema)}


def _needs_schema(what: str) -> NeedsSchema:
    error = needs_registry(what)
    return NeedsSchema(error.status, error.message, error.code)


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
