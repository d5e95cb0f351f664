"""The messages of Singer's protocol, one JSON object per line."""

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.ingest.error import ProtocolError

_SHOWN_BYTES = 100


@dataclass(frozen=True, slots=True)
class SchemaMessage:
    """Describes the records of a stream that follow.

    Attributes:
        text: the message without its type, as JSON: schema, key_properties and the rest.
    """

    stream: str
    key_properties: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class RecordMessage:
    """One row of a stream.

    Attributes:
        version: of the table, for a tap that sends whole tables; else None.
    """

    stream: str
    record: dict[str, Any]
    time_extracted: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class StateMessage:
    """Where a tap continues in its next run. It covers all records before it."""

    value: Any


Message: TypeAlias = SchemaMessage | RecordMessage | StateMessage


def parse_message(line: bytes) -> Message | None:
    """Return the message of a line; None for ACTIVATE_VERSION, which has no record.

    Raises:
        ProtocolError: the line is no message that is understood.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise ProtocolError(f"a line is no JSON: {shown(line)}") from None
    kind = message.get("type") if isinstance(message, dict) else None
    stream = message.get("stream") if isinstance(message, dict) else None
    if kind == "STATE" and "value" in message:
        return StateMessage(message["value"])
    if kind in ("RECORD", "SCHEMA", "ACTIVATE_VERSION") and isinstance(stream, str):
        if kind == "RECORD" and isinstance(message.get("record"), dict):
            return _record(stream, message)
        if kind == "SCHEMA" and isinstance(message.get("schema"), dict):
            return _schema(stream, message)
        if kind == "ACTIVATE_VERSION":
            return None
    if kind == "BATCH":
        raise ProtocolError("the tap writes BATCH messages: turn batches off in its configuration")
    raise ProtocolError(f"a line is no message of Singer: {shown(line)}")


def _record(stream: str, message: dict[str, Any]) -> RecordMessage:
    time_extracted, version = message.get("time_extracted"), message.get("version")
    return RecordMessage(
        stream,
        message["record"],
        time_extracted if isinstance(time_extracted, str) else None,
        version if isinstance(version, int) else None,
    )


def _schema(stream: str, message: dict[str, Any]) -> SchemaMessage:
    keys = message.get("key_properties") or []
    if not isinstance(keys, list) or not all(isinstance(each, str) for each in keys):
        raise ProtocolError(f"the key_properties of stream {stream} are no list of names")
    rest = {key: value for key, value in message.items() if key != "type"}
    return SchemaMessage(stream, tuple(keys), json.dumps(rest, ensure_ascii=False))


def shown(line: bytes) -> str:
    """Return the beginning of a line, for an error."""
    text = line[:_SHOWN_BYTES].decode("utf-8", "replace")
    return repr(text) + ("..." if len(line) > _SHOWN_BYTES else "")
