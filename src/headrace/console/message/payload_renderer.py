"""Renders the bytes of a record as JSON, text, Avro, Protobuf or hex.

The result is always a bounded text, and the page shows it as text only, never as HTML.
"""

import io
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from headrace.console.message.mask import HIDDEN, Mask
from headrace.console.message.schema_cache import (
    FoundSchema,
    NoSchema,
    Patience,
    SchemaCache,
)
from headrace.model.error import HeadraceError, InvalidArgument
from headrace.serde.codec.avro import AvroCodec
from headrace.serde.codec.avro_bound import AvroBound
from headrace.serde.wire_format import Framing, Headers, framing_of

PREVIEW_CHARACTERS: Final = 2_000
FULL_CHARACTERS: Final = 1_000_000
# Larger values are not parsed: a page of a hundred of them would take a core for seconds.
_MOST_PARSED_BYTES: Final = 8 * 1024 * 1024
_AVRO_FILE: Final = b"Obj\x01"
_MOST_AVRO_RECORDS: Final = 1_000
# By compression: deflate makes a thousand bytes of one, snappy twenty; others make far more.
_MOST_FILE_BYTES: Final = {"null": _MOST_PARSED_BYTES, "deflate": 64 * 1024, "snappy": 1024 * 1024}
_HEX_LINE_BYTES: Final = 16


class View(StrEnum):
    """How to render bytes; `auto` takes the first view that fits."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Payload:
    """Rendered bytes.

    Attributes:
        kind: the view that was used, `null` or `hidden`.
        cut: whether the text was cut off at the limit.
        schema_id: of a value in a schema registry's framing.
        schema: the schema that the value was decoded with: id, guid, type, subject, version.
        note: why the schema that the value names was not used.
    """

    kind: str
    text: str
    size: int
    cut: bool = False
    schema_id: int | None = None
    schema: dict[str, Any] | None = None
    note: str | None = None

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "text": self.text, "size": self.size}
        if self.cut:
            fields["cut"] = True
        if self.schema_id is not None:
            fields["schema_id"] = self.schema_id
        if self.schema is not None:
            fields["schema"] = self.schema
        if self.note is not None:
            fields["note"] = self.note
        return fields


@dataclass(frozen=True, slots=True)
class _Value:
    """What bytes say.

    Attributes:
        kind: None if they have no structure.
        framed: whether they name a schema, as far as is known.
    """

    value: Any = None
    kind: str | None = None
    schema_id: int | None = None
    schema: dict[str, Any] | None = None
    note: str | None = None
    framed: bool = False


class PayloadRenderer:
    """Renders keys, values and headers of one topic, for one page: it has patience once.

    Args:
        mask: what to hide.
        schema: reads Avro values that do not carry their own schema.
        schema_cache: finds the schemas that keys and values name; None without a registry.
        topic: its subjects are shown first where several have a schema.
    """

    def __init__(
        self,
        mask: Mask,
        schema: AvroCodec | None = None,
        schema_cache: SchemaCache | None = None,
        topic: str = "",
    ) -> None:
        self._mask = mask
        self._schema = schema
        self._schema_cache = schema_cache
        self._topic = topic
        self._patience = Patience()

    @property
    def hides(self) -> bool:
        """Whether anything of this topic is hidden."""
        return self._mask.applies

    def show(
        self,
        data: bytes | None,
        view: View = View.AUTO,
        max_characters: int = PREVIEW_CHARACTERS,
        headers: Headers = (),
    ) -> Payload:
        """Render the bytes of a value.

        Raises:
            InvalidArgument: the bytes do not fit `view`.
        """
        if data is None:
            return Payload("null", "", 0)
        if self._mask.everything:
            return Payload("hidden", HIDDEN, len(data))
        return self._rendered(data, self._value(data, view, headers), view, max_characters)

    def parsed(self, data: bytes | None, headers: Headers = ()) -> Any:
        """Return the masked value for a path to look into; None if the bytes have no structure."""
        if data is None:
            return None
        found = self._value(data, View.AUTO, headers)
        return self._mask.hide(found.value) if self._has_structure(found) else None

    def searchable(self, data: bytes | None, headers: Headers = ()) -> bytes | None:
        """Return the bytes that a search may look at."""
        if data is None or not self._mask.applies:
            return data
        shown = self.show(data, max_characters=FULL_CHARACTERS, headers=headers)
        return shown.text.encode()

    def searchable_key(self, data: bytes | None, headers: Headers = ()) -> bytes | None:
        if data is None or not self._mask.applies:
            return data
        return self.key(data, headers).text.encode()

    def searchable_header(self, name: str, data: bytes | None) -> bytes | None:
        if data is None or not self._mask.applies:
            return data
        return self.header(name, data).text.encode()

    def key(self, data: bytes | None, headers: Headers = ()) -> Payload:
        """Render a key. Most keys are plain ids, so only fields inside of a key that is JSON, or
        that names a schema, are hidden."""
        if data is None or self._mask.everything:
            return self.show(data)
        found = self._of_registry(data, headers, View.AUTO, key=True)
        if found.kind is None and not found.framed:
            value, kind = _json(data)
            if kind is None:
                return _PLAIN.show(data)
            found = _Value(value, kind)
        return self._rendered(data, found, View.AUTO, PREVIEW_CHARACTERS)

    def header(self, name: str, data: bytes | None) -> Payload:
        if data is not None and self._mask.hides_header(name):
            return Payload("hidden", HIDDEN, len(data))
        if data is None or self._mask.everything or _json(data)[1]:
            return PayloadRenderer(self._mask).show(data)
        return _PLAIN.show(data)

    def _rendered(self, data: bytes, found: _Value, view: View, max_characters: int) -> Payload:
        of_schema: dict[str, Any] = {"schema_id": found.schema_id, "schema": found.schema}
        if not self._has_structure(found) and self._mask.applies:
            # Without its note: a decoder's reasons may quote the value.
            return Payload("hidden", HIDDEN, len(data), **of_schema)
        of_schema["note"] = found.note
        if found.kind is not None:
            masked = self._mask.hide(found.value)
            try:
                text = json.dumps(masked, ensure_ascii=False, indent=2, default=str)
            except (ValueError, RecursionError, TypeError) as error:
                raise InvalidArgument(f"this cannot be shown: {error}") from error
            # JSON can name halves of characters, which no text has.
            text = text.encode("utf-8", "replace").decode()
            cut = len(text) > max_characters
            return Payload(found.kind, text[:max_characters], len(data), cut, **of_schema)
        if view in (View.JSON, View.AVRO, View.PROTOBUF):
            raise InvalidArgument(f"this is no {_NAMES[view]}{_because(found.note)}")
        readable = None if view is View.HEX else _text(data, max_characters)
        if readable is None and view is not View.TEXT:
            shown = data[: max_characters // 4]
            return Payload("hex", _hex(shown), len(data), len(shown) < len(data), **of_schema)
        if readable is None:
            readable = data[: max_characters * 4].decode("utf-8", "replace")[:max_characters]
        return Payload("text", readable, len(data), _more(data, readable), **of_schema)

    def _has_structure(self, found: _Value) -> bool:
        """Whether there is something to show but bytes. Where masks apply, a text or a number is
        nothing: it has no fields to hide, and a text may have them anywhere in it."""
        if found.kind is None:
            return False
        return not self._mask.applies or _has_parts(found.value)

    def _value(self, data: bytes, view: View, headers: Headers) -> _Value:
        """Return what the bytes of a value say, in a view."""
        if view in (View.TEXT, View.HEX) and not self._mask.applies:
            return _Value(schema_id=_schema_id(framing_of(data, headers)))
        if len(data) > _MOST_PARSED_BYTES:
            return _Value()
        found = self._of_registry(data, headers, view, key=False)
        if found.kind is not None:
            return found
        if view not in (View.JSON, View.PROTOBUF):
            value = self._avro(data)
            if value is not None:
                return replace(found, value=value, kind="avro", note=None)
        value, kind = (None, None) if view is View.PROTOBUF else _json(data)
        return replace(found, value=value, kind=kind)

    def _of_registry(self, data: bytes, headers: Headers, view: View, *, key: bool) -> _Value:
        """Return what the bytes say by the schema that they name."""
        framing = framing_of(data, headers, key=key)
        if framing is None or len(data) > _MOST_PARSED_BYTES:
            return _Value()
        schema_id = _schema_id(framing)
        if self._schema_cache is None:
            return _Value(schema_id=schema_id)
        schema = self._schema_cache.find(framing, self._patience)
        if isinstance(schema, NoSchema):
            # Any bytes may begin like a framing: then the registry has no such schema.
            return _Value(schema_id=schema_id, note=schema.reason, framed=not schema.unknown)
        facts = self._facts(schema, "key" if key else "value")
        if view not in (View.AUTO, View.TEXT, View.HEX) and view != schema.kind:
            return _Value(schema_id=schema_id, schema=facts, framed=True)
        try:
            value = schema.decode(data, framing)
        except HeadraceError as error:
            note = str(error)[:500]
        except Exception as error:  # noqa: BLE001  # libraries raise any exception on hostile bytes
            note = f"it cannot be decoded: {error}"[:500]
        else:
            return _Value(value, schema.kind, schema_id, facts, framed=True)
        return _Value(schema_id=schema_id, note=note, framed=True)

    def _facts(self, found: FoundSchema, part: str) -> dict[str, Any]:
        subject, version = found.place(self._topic, part) or (None, None)
        schema = found.schema
        return {
            "id": schema.id,
            "guid": schema.guid,
            "type": schema.type.value,
            "subject": subject,
            "version": version,
        }

    def _avro(self, data: bytes) -> Any:
        try:
            if data.startswith(_AVRO_FILE):
                from fastavro import reader

                file = reader(io.BytesIO(data))
                largest = _MOST_FILE_BYTES.get(file.codec, 0)
                # Such a file brings its own schema: nothing else vouches for it.
                if len(data) > largest or not AvroBound(file.writer_schema).by_bytes:
                    return None
                records = list(islice(file, _MOST_AVRO_RECORDS))
                if self._mask.applies and not all(map(_has_parts, records)):
                    return None
                return records
            if self._schema is not None:
                framing = framing_of(data)
                return self._schema.decode(data if framing is None else data[framing.payload_at :])
        except Exception:  # noqa: BLE001  # fastavro raises any exception on hostile input
            return None
        return None


_PLAIN: Final = PayloadRenderer(Mask(False, frozenset(), frozenset()))
_NAMES: Final = {View.JSON: "JSON", View.AVRO: "Avro", View.PROTOBUF: "Protobuf"}


def _has_parts(value: Any) -> bool:
    return isinstance(value, dict | list)


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


def _schema_id(framing: Framing | None) -> int | None:
    return None if framing is None else framing.id


def _because(note: str | None) -> str:
    return "" if note is None else f": {note}"
