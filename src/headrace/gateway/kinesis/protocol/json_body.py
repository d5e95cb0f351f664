"""Bodies in JSON 1.1: blobs in base64, times in seconds."""

import base64
import json
from typing import Any, Final

from headrace.gateway.kinesis.error import serialization
from headrace.gateway.kinesis.protocol.timestamp import Timestamp

JSON_TYPE: Final = "application/x-amz-json-1.1"
_LONGEST_NUMBER: Final = 40  # characters; int() of a longer text is quadratic
_MOST_VALUES: Final = 160_000
"""500 records of three members, with keys of 256 commas. Millions hold all threads for seconds."""


def read_json(body: bytes) -> Any:
    """Parse a request's body. An empty one is an empty structure.

    Raises:
        ServiceError: SerializationException.
    """
    if not body:
        return {}
    if sum(map(body.count, (b",", b"[", b"{"))) > _MOST_VALUES:  # none of them is in base64
        raise serialization()
    try:
        return json.loads(body, parse_int=_number, parse_float=_float, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise serialization() from None


def write_json(response: dict[str, Any]) -> bytes:
    """Write a response's body."""
    return json.dumps(response, default=_plain, separators=(",", ":")).encode()


def _number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("too long")
    return int(text)


def _float(text: str) -> float:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("too long")
    return float(text)


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Timestamp):
        return value.ms / 1000
    raise TypeError(type(value))
