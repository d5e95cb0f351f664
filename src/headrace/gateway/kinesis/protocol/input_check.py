"""Checks a request against its shape, and converts blobs and times.

Rule 1: a value of the wrong type ends the check at once with a SerializationException: the service
cannot read the request. Values that break a limit are collected, up to `_MOST_SHOWN`, in one
ValidationException.
Rule 2: members that the model does not have are left out, as the service does: newer clients send
members that older services do not know.
Rule 3: null counts as absent.
Rule 4: `sound_input` reads what is sound, several times faster, and this walk the rest.
"""

import binascii
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.gateway.kinesis.error import serialization, validation
from headrace.gateway.kinesis.protocol.service_model import Shape
from headrace.gateway.kinesis.protocol.sound_input import Declined, sound_input
from headrace.gateway.kinesis.protocol.timestamp import Timestamp

_MOST_SHOWN: Final = 10
_SHOWN_CHARACTERS: Final = 256
_INT_RANGE: Final = {"integer": 2**31, "long": 2**63}
_LATEST_SECONDS: Final = 253_402_300_800  # year 10000


def check_input(shape: Shape | None, raw: Any) -> dict[str, Any]:
    """Return the members of a request, checked and converted.

    Blobs become bytes, times become `Timestamp`s.

    Raises:
        ServiceError: SerializationException or ValidationException.
    """
    if not isinstance(raw, dict):
        raise serialization()
    if shape is None:
        return {}
    try:
        sound: dict[str, Any] = sound_input(shape, raw)
    except Declined:
        return walk_input(shape, raw)
    return sound


def walk_input(shape: Shape, raw: Any) -> dict[str, Any]:
    """Do what `check_input` does, for any value."""
    walk = _Walk()
    checked = walk.structure(shape, raw, "")
    walk.finish()
    return checked


@dataclass(slots=True)
class _Walk:
    """One walk over one request."""

    problems: list[str] = field(default_factory=list)

    def finish(self) -> None:
        count = len(self.problems)
        if count:
            noun = "error" if count == 1 else "errors"
            text = "; ".join(self.problems)
            raise validation(f"{count} validation {noun} detected: {text}")

    def fail(self, shown: str, path: str, constraint: str) -> None:
        if len(self.problems) < _MOST_SHOWN:
            self.problems.append(
                f"Value {shown} at '{path}' failed to satisfy constraint: Member must {constraint}"
            )

    def value(self, shape: Shape, raw: Any, path: str) -> Any:
        return _READERS[shape.kind](self, shape, raw, path)

    def structure(self, shape: Shape, raw: Any, path: str) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise _unexpected(raw, "structure")
        checked = {}
        for name, member in shape.members.items():
            value = raw.get(name)
            if value is not None:
                checked[name] = self.value(member, value, _join(path, name))
        for name in shape.required:
            if raw.get(name) is None:
                self.fail("null", _join(path, name), "not be null")
        return checked

    def items(self, shape: Shape, raw: Any, path: str) -> list[Any]:
        if not isinstance(raw, list):
            raise _unexpected(raw, "list")
        if not self.length(shape, len(raw), lambda: _shown_items(raw), path):
            return []
        [element] = shape.element
        checked = []
        for at, each in enumerate(raw, 1):
            if each is None:
                self.fail("null", f"{path}.{at}.member", "not be null")
            else:
                checked.append(self.value(element, each, f"{path}.{at}.member"))
        return checked

    def mapping(self, shape: Shape, raw: Any, path: str) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise _unexpected(raw, "map")
        if not self.length(shape, len(raw), lambda: _shown_items(list(raw)), path):
            return {}
        [key], [element] = shape.key, shape.element
        checked = {}
        for name, each in raw.items():
            checked[self.text(key, name, f"{path}.key")] = self.value(
                element, "" if each is None else each, f"{path}.{name}.member"
            )
        return checked

    def text(self, shape: Shape, raw: Any, path: str) -> str:
        if not isinstance(raw, str):
            raise _unexpected(raw, "String")
        if shape.choices and raw not in shape.choices:
            choices = ", ".join(shape.choices)
            self.fail(_shown(raw), path, f"satisfy enum value set: [{choices}]")
        # Java counts UTF-16 units.
        units = len(raw) if raw.isascii() else len(raw.encode("utf-16-le", "surrogatepass")) // 2
        fits = self.length(shape, units, lambda: _shown(raw), path)
        if fits and shape.pattern is not None and not shape.pattern.fullmatch(raw):
            constraint = f"satisfy regular expression pattern: {shape.pattern_text}"
            self.fail(_shown(raw), path, constraint)
        if not raw.isascii() and any("\ud800" <= each <= "\udfff" for each in raw):
            raise serialization("A string is no valid Unicode.")
        return raw

    def blob(self, shape: Shape, raw: Any, path: str) -> bytes:
        if isinstance(raw, str):
            try:
                raw = binascii.a2b_base64(raw, strict_mode=True)
            except (binascii.Error, ValueError):
                raise serialization("A blob is no valid base64.") from None
        if not isinstance(raw, bytes):
            raise _unexpected(raw, "Blob")
        size = len(raw)
        shown = f"'java.nio.HeapByteBuffer[pos=0 lim={size} cap={size}]'"
        self.length(shape, size, lambda: shown, path)
        return raw

    def number(self, shape: Shape, raw: Any, path: str) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise _unexpected(raw, shape.kind.capitalize())
        limit = _INT_RANGE[shape.kind]
        if not -limit <= raw < limit:  # also refuses NaN and infinity
            raise serialization(f"A number is outside the range of {shape.kind}.")
        number = int(raw)
        if shape.least is not None and number < shape.least:
            self.fail(f"'{number}'", path, f"have value greater than or equal to {shape.least}")
        if shape.most is not None and number > shape.most:
            self.fail(f"'{number}'", path, f"have value less than or equal to {shape.most}")
        return number

    def boolean(self, shape: Shape, raw: Any, path: str) -> bool:
        if not isinstance(raw, bool):
            raise _unexpected(raw, "Boolean")
        return raw

    def time(self, shape: Shape, raw: Any, path: str) -> Timestamp:
        if isinstance(raw, Timestamp):
            return raw
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise _unexpected(raw, "Timestamp")
        if not -_LATEST_SECONDS <= raw < _LATEST_SECONDS:
            raise serialization("A timestamp is out of range.")
        return Timestamp(round(raw * 1000))

    def length(self, shape: Shape, size: int, shown: Any, path: str) -> bool:
        if shape.least is not None and size < shape.least:
            self.fail(shown(), path, f"have length greater than or equal to {shape.least}")
            return False
        if shape.most is not None and size > shape.most:
            self.fail(shown(), path, f"have length less than or equal to {shape.most}")
            return False
        return True


_READERS: Final = {
    "structure": _Walk.structure,
    "list": _Walk.items,
    "map": _Walk.mapping,
    "string": _Walk.text,
    "blob": _Walk.blob,
    "integer": _Walk.number,
    "long": _Walk.number,
    "boolean": _Walk.boolean,
    "timestamp": _Walk.time,
}


def _join(path: str, name: str) -> str:
    """Members are written as Java's fields: `streamName`, `records.1.member.data`."""
    field_name = name[:1].lower() + name[1:]
    return f"{path}.{field_name}" if path else field_name


def _shown(text: str) -> str:
    cut = text[:_SHOWN_CHARACTERS]
    return f"'{cut}'" if len(cut) == len(text) else f"'{cut}...'"


def _shown_items(items: list[Any]) -> str:
    """A list may hold 10 MiB of data: name how many items it has, never the items."""
    return f"'[{len(items)} members]'" if items else "'[]'"


def _unexpected(raw: Any, wanted: str) -> Exception:
    if isinstance(raw, dict):
        return serialization("Start of structure or map found where not expected.")
    if isinstance(raw, list):
        return serialization("Start of list found where not expected.")
    if wanted in ("structure", "list", "map"):
        return serialization(f"Expected {wanted} or null")
    if isinstance(raw, bool):
        found = f"{raw}".upper() + "_VALUE"
    elif isinstance(raw, str):
        found = "STRING_VALUE"
    elif isinstance(raw, bytes):
        found = "BLOB_VALUE"
    else:
        found = "NUMBER_VALUE"
    return serialization(f"{found} cannot be converted to {wanted}")
