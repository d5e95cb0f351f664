"""Schemas of Kafka Connect, as they are in JSON that describes itself.

With `schemas.enable` a key or value is `{"schema": S, "payload": P}`. All records of a table begin
with the same text up to the payload, so that a reader parses it once.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headrace.model.error import HeadraceError

ConnectSchema = Mapping[str, Any]

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_BEGIN: Final = '{"schema":'
_MIDDLE: Final = ',"payload":'
_MOST_BYTES: Final = 1 << 20


class NotConnect(HeadraceError):
    """Something is no JSON with a schema of Connect, or its value does not fit that schema."""


class Described(NamedTuple):
    """A key or value that carries its schema.

    Attributes:
        prefix: the bytes before the payload; after it there is one more brace.
    """

    prefix: bytes
    schema: ConnectSchema
    payload: bytes


def described(data: bytes) -> Described:
    """Return a key or value in its parts.

    >>> found = described(b'{"schema":{"type":"int32"},"payload":7}')
    >>> found.schema, found.payload
    ({'type': 'int32'}, b'7')

    Raises:
        NotConnect: it carries no schema.
    """
    try:
        text = data.decode()
        if not text.startswith(_BEGIN):
            text = _canonical(text)
        schema, end = json.JSONDecoder().raw_decode(text, len(_BEGIN))
        if not text.startswith(_MIDDLE, end) or not text.endswith("}"):
            text = _canonical(text)
            schema, end = json.JSONDecoder().raw_decode(text, len(_BEGIN))
    except (ValueError, RecursionError):
        raise _without_schema() from None
    if not isinstance(schema, dict) or "type" not in schema:
        raise _without_schema()
    middle = end + len(_MIDDLE)
    prefix = text[:middle].encode()
    if len(prefix) > _MOST_BYTES:
        raise NotConnect("the schema in an event has more than 1 MiB")
    return Described(prefix, schema, text[middle:-1].encode())


def _canonical(text: str) -> str:
    """Return the same JSON without white space, the schema first."""
    found = json.loads(text)
    if not isinstance(found, dict) or not {"schema", "payload"} <= found.keys():
        raise _without_schema()
    schema, payload = (
        json.dumps(found[name], ensure_ascii=False, separators=(",", ":"))
        for name in ("schema", "payload")
    )
    return f"{_BEGIN}{schema}{_MIDDLE}{payload}}}"


def _without_schema() -> NotConnect:
    return NotConnect(
        "an event carries no schema of Connect: set schemas.enable = true at its source"
    )
