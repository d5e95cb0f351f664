"""Keys, values and headers as text and back."""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from headrace.cli.record.file_format import FieldFormat
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

SUFFIXES: Final = {FieldFormat.TEXT: "", FieldFormat.BASE64: "_base64", FieldFormat.JSON: "_json"}
"""What follows `key` and `value` in the name of a column."""

compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class NotText(HeadraceError):
    """A key or value cannot be written in the requested format."""


class BadField(HeadraceError):
    """A field of a file cannot be part of a record."""


class BadFile(HeadraceError):
    """A file cannot be read to its end. Records before the bad place may have been written."""


def texts(
    column: pa.Array, name: str, how: FieldFormat, partition: TopicPartition, offsets: pa.Array
) -> pa.Array:
    """Return a column of bytes as a column of text.

    Raises:
        NotText: a record cannot be written so; the message names the first one.
    """
    if how is FieldFormat.BASE64:
        return pa.array(map(to_base64, column.to_pylist()), pa.string())
    try:
        strings = column.cast(pa.string())
    except pa.ArrowInvalid:
        at = next(row for row, data in enumerate(column.to_pylist()) if not is_text(data))
        raise NotText(
            f"the {name} at offset {offsets[at].as_py()} of {partition} is no text (UTF-8): "
            f"write --{name}-format base64"
        ) from None
    if how is FieldFormat.TEXT:
        return strings
    return pa.array(
        [_one_line(each, name, partition, offsets, row) for row, each in enumerate(strings)],
        pa.string(),
    )


def _one_line(
    text: Any, name: str, partition: TopicPartition, offsets: pa.Array, row: int
) -> str | None:
    """Return JSON on one line: equal as JSON, not byte by byte."""
    if not text.is_valid:
        return None
    try:
        return compact(json.loads(text.as_py()))
    except (ValueError, RecursionError):
        raise NotText(
            f"the {name} at offset {offsets[row].as_py()} of {partition} is no JSON: "
            f"write --{name}-format text or base64"
        ) from None


def is_text(data: bytes | None) -> bool:
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def to_base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def from_base64(text: str | None) -> bytes | None:
    """Return the bytes of a base64 text.

    Raises:
        BadField: the text is no base64.
    """
    if text is None:
        return None
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise BadField(f"{text[:40]!r} is no base64") from None


def header_objects(headers: Sequence[dict[str, Any]]) -> list[dict[str, str | None]]:
    """Return headers as JSON objects with `value`, or with `value_base64` where it is no text."""
    return [
        {"key": each["key"], "value_base64": to_base64(each["value"])}
        if not is_text(each["value"])
        else {
            "key": each["key"],
            "value": None if each["value"] is None else each["value"].decode(),
        }
        for each in headers
    ]


def read_headers(objects: Any) -> list[tuple[str, bytes | None]]:
    """Return the headers that `header_objects` wrote.

    Raises:
        BadField: the objects are no headers.
    """
    if objects is None:
        return []
    try:
        return [(_header_key(each), read_field(each, "value")) for each in objects]
    except (TypeError, AttributeError, KeyError):
        raise BadField(
            f'headers are written as [{{"key": ..., "value": ...}}], not as {objects!r:.60}'
        ) from None


def _header_key(header: Any) -> str:
    key = header["key"]
    if not isinstance(key, str):
        raise BadField(f"a header's key is text, not {key!r}")
    return key


def read_field(row: Any, name: str) -> bytes | None:
    """Return the key or value of a JSON object, in whichever format it is written.

    A number, list or object under the plain name is kept as JSON.
    """
    encoded = row.get(f"{name}_base64")
    if encoded is not None:
        if not isinstance(encoded, str):
            raise BadField(f"{name}_base64 is text, not {encoded!r:.40}")
        return from_base64(encoded)
    if f"{name}_json" in row:
        return compact(row[f"{name}_json"]).encode()
    plain = row.get(name)
    if plain is None:
        return None
    try:
        return plain.encode() if isinstance(plain, str) else compact(plain).encode()
    except UnicodeEncodeError:
        raise BadField(f"the {name} has half a character in it: {plain!r:.40}") from None
