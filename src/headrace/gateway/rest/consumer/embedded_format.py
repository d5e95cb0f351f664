"""The formats of keys and values in API v2, by content type. Pure."""

import json
import re
from typing import Any, Final

from headrace.gateway.rest.error import RestError, unprocessable
from headrace.gateway.rest.json_document import write_json
from headrace.gateway.rest.produce.embedded_data import from_base64, from_json, to_base64
from headrace.gateway.rest.produce.record import Record

BINARY: Final = "binary"
JSON: Final = "json"
WITH_SCHEMA: Final = ("avro", "jsonschema", "protobuf")
FORMATS: Final = (BINARY, JSON)

_TYPE: Final = re.compile(
    r"application/vnd\.kafka\.(binary|json|avro|jsonschema|protobuf)\.v2\+json"
)
_PLAIN: Final = (
    "application/vnd.kafka.v2+json",
    "application/vnd.kafka+json",
    "application/json",
    "application/octet-stream",
    "application/*",
    "*/*",
    "",
)


# Makes a NamedTuple in half the time its own constructor takes.
_new: Final = tuple.__new__


def content_type(form: str) -> str:
    """Return the content type of a format."""
    return f"application/vnd.kafka.{form}.v2+json"


def format_of(header: str) -> str | None:
    """Return the format that a Content-Type or Accept header names; None if it names none.

    Raises:
        RestError: it names something else.
    """
    others = []
    for each in header.split(","):
        name = each.partition(";")[0].strip().lower()
        found = _TYPE.fullmatch(name)
        if found is not None:
            return found[1]
        if name not in _PLAIN:
            others.append(name)
    if others and len(others) == len(header.split(",")):
        raise RestError(415, "HTTP 415 Unsupported Media Type")
    return None


def read_data(data: Any, form: str, what: str) -> bytes | None:
    """Return a key or a value of a request."""
    return from_base64(data, what) if form == BINARY else from_json(data)


def write_data(data: bytes | None, form: str) -> bytes:
    """Return a key or a value as JSON.

    Raises:
        RestError: it is to be JSON, and is none.
    """
    if data is None:
        return b"null"
    if form == BINARY:
        return write_json(to_base64(data))
    try:
        return write_json(json.loads(data, parse_constant=_refuse))
    except (ValueError, RecursionError):
        raise unprocessable(
            "A record is no JSON: read it with the format binary, or seek behind it.", 42203
        ) from None


def read_records(records: Any, form: str, most: int, *, has_escapes: bool = True) -> list[Record]:
    """Return the records of a request.

    Args:
        has_escapes: whether a text in the document may have been written with escapes. One that
            was not is written again as it was, and JSON's writer looks at each letter twice.

    Raises:
        RestError: they are none.
    """
    if form != JSON or has_escapes:
        return [_record(*each, form) for each in read_fields(records, most)]
    _check_list(records, most)
    found: list[Record] = []
    for each in records:
        if type(each) is dict and len(each) == 1 and type(text := each.get("value")) is str:
            found.append(_new(Record, (None, f'"{text}"'.encode(), (), None, None)))
        else:
            key, value, partition = _fields(each)
            found.append(Record(_quoted(key), _quoted(value), partition=partition))
    return found


def _quoted(data: Any) -> bytes | None:
    return f'"{data}"'.encode() if type(data) is str else from_json(data)


def read_fields(records: Any, most: int) -> list[tuple[Any, Any, int | None]]:
    """Return key, value and partition of the records of a request, as they are in JSON.

    Raises:
        RestError: they are none.
    """
    _check_list(records, most)
    return [_fields(each) for each in records]


def _check_list(records: Any, most: int) -> None:
    if not isinstance(records, list) or not records:
        raise unprocessable("records has to be a list of records.")
    if len(records) > most:
        raise unprocessable(f"A request has at most {most} records.")


def _fields(fields: Any) -> tuple[Any, Any, int | None]:
    if not isinstance(fields, dict):
        raise unprocessable("A record has to be an object.")
    partition = fields.get("partition")
    if partition is not None and (
        isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < 2**31
    ):
        raise unprocessable("partition has to be a number from 0 on.")
    return fields.get("key"), fields.get("value"), partition


def _record(key: Any, value: Any, partition: int | None, form: str) -> Record:
    try:
        read = (read_data(key, form, "key"), read_data(value, form, "value"))
    except RestError as error:
        raise unprocessable(error.message) from None
    return Record(*read, partition=partition)


def _refuse(name: str) -> None:
    raise ValueError(name)
