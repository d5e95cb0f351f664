"""Renders the bytes of a record as JSON, text, Avro or hex.

The result is always a bounded text, and the page shows it as text only, never as HTML.
"""

import io
import json
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from headrace.console.message.mask import HIDDEN, Mask
from headrace.model.error import InvalidArgument

PREVIEW_CHARACTERS: Final = 2_000
FULL_CHARACTERS: Final = 1_000_000
# Larger values are not parsed: a page of a hundred of them would take a core for seconds.
_MOST_PARSED_BYTES: Final = 8 * 1024 * 1024
_AVRO_FILE: Final = b"Obj\x01"
_MOST_AVRO_RECORDS: Final = 1_000
_REGISTRY_MAGIC: Final = 0
_REGISTRY_HEAD_BYTES: Final = 5
_HEX_LINE_BYTES: Final = 16


class View(StrEnum):
    """How to render bytes; `auto` takes the first view that fits."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    AVRO = "avro"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Payload:
    """Rendered bytes.

    Attributes:
        kind: the view that was used, `null` or `hidden`.
        cut: whether the text was cut off at the limit.
        schema_id: of a value in a schema registry's framing.
    """

    kind: str
    text: str
    size: int
    cut: bool = False
    schema_id: int | None = None

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "text": self.text, "size": self.size}
        if self.cut:
            fields["cut"] = True
        if self.schema_id is not None:
            fields["schema_id"] = self.schema_id
        return fields


class PayloadRenderer:
    """Renders keys, values and headers of one topic.

    Args:
        mask: what to hide.
        schema: the parsed schema of Avro values that do not carry their own.
    """

    def __init__(self, mask: Mask, schema: Any = None) -> None:
        self._mask = mask
        self._schema = schema

    @property
    def hides(self) -> bool:
        """Whether anything of this topic is hidden."""
        return self._mask.applies

    def show(
        self, data: bytes | None, view: View = View.AUTO, max_characters: int = PREVIEW_CHARACTERS
    ) -> Payload:
        """Render bytes.

        Raises:
            InvalidArgument: the bytes do not fit `view`.
        """
        if data is None:
            return Payload("null", "", 0)
        if self._mask.everything:
            return Payload("hidden", HIDDEN, len(data))
        schema_id = _schema_id(data)
        value, kind = self._value(data, view)
        if kind is not None:
            text = json.dumps(self._mask.hide(value), ensure_ascii=False, indent=2, default=str)
            return Payload(
                kind, text[:max_characters], len(data), len(text) > max_characters, schema_id
            )
        if self._mask.applies:
            return Payload("hidden", HIDDEN, len(data))
        if view in (View.JSON, View.AVRO):
            raise InvalidArgument(f"this is no {view.upper()}")
        readable = None if view is View.HEX else _text(data, max_characters)
        if readable is None and view is not View.TEXT:
            shown = data[: max_characters // 4]
            return Payload("hex", _hex(shown), len(data), len(shown) < len(data), schema_id)
        if readable is None:
            readable = data[: max_characters * 4].decode("utf-8", "replace")[:max_characters]
        return Payload("text", readable, len(data), _more(data, readable), schema_id)

    def parsed(self, data: bytes | None) -> Any:
        """Return the masked value for a path to look into; None if the bytes have no structure."""
        if data is None:
            return None
        value, kind = self._value(data, View.AUTO)
        return None if kind is None else self._mask.hide(value)

    def searchable(self, data: bytes | None) -> bytes | None:
        """Return the bytes that a search may look at."""
        if data is None or not self._mask.applies:
            return data
        return self.show(data, max_characters=FULL_CHARACTERS).text.encode()

    def searchable_key(self, data: bytes | None) -> bytes | None:
        if data is None or not self._mask.applies:
            return data
        return self.key(data).text.encode()

    def searchable_header(self, name: str, data: bytes | None) -> bytes | None:
        if data is None or not self._mask.applies:
            return data
        return self.header(name, data).text.encode()

    def key(self, data: bytes | None) -> Payload:
        """Render a key. Most keys are plain ids, so only fields inside of a JSON key are hidden."""
        if data is None or self._mask.everything or _json(data)[1]:
            return self.show(data)
        return _PLAIN.show(data)

    def header(self, name: str, data: bytes | None) -> Payload:
        if data is not None and self._mask.hides_header(name):
            return Payload("hidden", HIDDEN, len(data))
        return self.key(data)

    def _value(self, data: bytes, view: View) -> tuple[Any, str | None]:
        """Return the parsed value and its kind; the kind is None if the bytes have no structure."""
        if view in (View.TEXT, View.HEX) and not self._mask.applies:
            return None, None
        if len(data) > _MOST_PARSED_BYTES:
            return None, None
        if view is not View.JSON:
            value = self._avro(data)
            if value is not None:
                return value, "avro"
        return _json(data)

    def _avro(self, data: bytes) -> Any:
        try:
            if data.startswith(_AVRO_FILE):
                from fastavro import reader

                return list(islice(reader(io.BytesIO(data)), _MOST_AVRO_RECORDS))
            if self._schema is not None:
                from fastavro import schemaless_reader

                body = data if _schema_id(data) is None else data[_REGISTRY_HEAD_BYTES:]
                return schemaless_reader(io.BytesIO(body), self._schema, None)
        except Exception:  # noqa: BLE001  # fastavro raises any exception on hostile input
            return None
        return None


_PLAIN: Final = PayloadRenderer(Mask(False, frozenset(), frozenset()))


def _json(data: bytes) -> tuple[Any, str | None]:
    """Parse JSON objects and lists only. A bare number or word is rendered as text."""
    if data[:64].lstrip()[:1] not in (b"{", b"["):
        return None, None
    try:
        return json.loads(data), "json"
    except (ValueError, RecursionError):
        return None, None


def _text(data: bytes, max_characters: int) -> str | None:
    """Return the text, or None unless the bytes are UTF-8 without control characters."""
    part = data[: max_characters * 4]
    try:
        text = part.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(part) == len(data) or error.start < len(part) - 3:
            return None
        text = part[: error.start].decode("utf-8")
    if any(ord(letter) < 32 and letter not in "\t\n\r" for letter in text[:4096]):
        return None
    return text[:max_characters]


def _more(data: bytes, text: str) -> bool:
    return len(text.encode("utf-8", "replace")) < len(data)


def _hex(data: bytes) -> str:
    """Return what `hexdump -C` prints."""
    lines = []
    for at in range(0, len(data), _HEX_LINE_BYTES):
        line = data[at : at + _HEX_LINE_BYTES]
        printable = "".join(chr(each) if 32 <= each < 127 else "." for each in line)
        lines.append(f"{at:08x}  {line.hex(' '):<{3 * _HEX_LINE_BYTES}} {printable}")
    return "\n".join(lines)


def _schema_id(data: bytes) -> int | None:
    if len(data) > _REGISTRY_HEAD_BYTES and data[0] == _REGISTRY_MAGIC:
        return int.from_bytes(data[1:_REGISTRY_HEAD_BYTES], "big")
    return None
