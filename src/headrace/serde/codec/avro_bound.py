"""Which bytes are safe to hand to an Avro reader.

Rule 1: fastavro recurses in C, as deep as a value nests. A value of a recursive schema, of 10 KB,
        overflows the stack and ends the process.
Rule 2: null, an empty record and a `fixed` of size 0 take no bytes. An array of them claims
        billions of items in ten bytes, and nested records of them multiply.

So a value of a schema with such types is walked first, without building anything, and refused past
a depth or a number of values. Most schemas have none, and their values are not walked.
"""

from collections.abc import Mapping
from typing import Any, Final

from headrace.serde.error import Undecodable

_MOST_DEPTH: Final = 300
_MOST_VALUES: Final = 200_000
# A value takes about this much memory per byte at most, counted in Python objects.
_MOST_VALUES_PER_BYTE: Final = 64
_MOST_WEIGHT: Final = 10_000
_ENDLESS: Final = 1 << 40

_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS: Final = frozenset(("int", "long", "enum"))
_LONG: Final = frozenset(("bytes", "string"))


class AvroBound:
    """Says whether the values of a schema are bounded by their bytes, and walks them if not.

    Args:
        schema: as parsed JSON; every name that it uses is declared in it.

    Threads: any.
    """

    def __init__(self, schema: Any) -> None:
        self._names: dict[str, Any] = {}
        self._declare(schema, "")
        self._schema = schema
        self._weights: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._walks = False
        self._weigh(schema, "", ())

    @property
    def by_bytes(self) -> bool:
        """Whether no value needs to be walked: its bytes alone bound what it takes."""
        return not self._walks

    def check(self, data: bytes) -> None:
        """Refuse a value that would take too much stack or memory.

        Raises:
            Undecodable: it is such a value, or ends too early.
        """
        self.check_all(data, 1)

    def check_all(self, data: bytes | memoryview, count: int) -> None:
        """Refuse values that follow one another, if one would take too much stack or memory.

        Raises:
            Undecodable: there is such a value, or the last one ends too early.
        """
        if self._walks:
            walk = _Walk(self._names, data)
            for _ in range(count):
                walk.skip_value(self._schema)

    def _declare(self, schema: Any, space: str) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._declare(branch, space)
            return
        if not isinstance(schema, Mapping):
            return
        kind = schema.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            name, space = _full_name(schema, space)
            self._names[name] = (schema, space)
            for field in schema.get("fields", ()):
                self._declare(field["type"], space)
        elif kind == "array":
            self._declare(schema["items"], space)
        elif kind == "map":
            self._declare(schema["values"], space)
        elif not isinstance(kind, str):
            self._declare(kind, space)

    def _weigh(self, schema: Any, space: str, above: tuple[int, ...]) -> tuple[int, int]:
        """Return how many values one value has in it, items of arrays aside, and the bytes that
        it takes at least."""
        schema, space = _resolved(schema, space, self._names)
        key = id(schema)
        if key in above:
            self._walks = True
            return _ENDLESS, 0
        if key in self._weights:
            return self._weights[key], self._sizes[key]
        above = (*above, key)
        kind = _kind(schema)
        weight, size = 1, 1
        if kind == "union":
            parts = [self._weigh(each, space, above) for each in schema]
            weight += max((each for each, _ in parts), default=0)
            size += min((each for _, each in parts), default=0)
        elif kind in ("record", "error"):
            _, space = _full_name(schema, space)
            parts = [self._weigh(each["type"], space, above) for each in schema["fields"]]
            weight += sum(each for each, _ in parts)
            size = sum(each for _, each in parts)
        elif kind in ("array", "map"):
            items, least = self._weigh(
                schema["items" if kind == "array" else "values"], space, above
            )
            least += kind == "map"
            if items > _MOST_VALUES_PER_BYTE * least:
                self._walks = True
        elif kind == "fixed":
            size = int(schema["size"])
        else:
            size = _FIXED_BYTES.get(kind, 1)
        weight = min(weight, _ENDLESS)
        if weight > _MOST_WEIGHT:
            self._walks = True
        if isinstance(schema, Mapping | list):
            self._weights[key], self._sizes[key] = weight, size
        return weight, size


class _Walk:
    """Goes over the bytes of values."""

    def __init__(self, names: Mapping[str, Any], data: bytes | memoryview) -> None:
        self._names = names
        self._data = data
        self._at = 0
        self._left = 0

    def skip_value(self, schema: Any) -> None:
        """Go over one value of a schema, which has so many values and levels in it at most."""
        self._left = _MOST_VALUES
        self.skip(schema, "", 0)

    def skip(self, schema: Any, space: str, depth: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise Undecodable(f"the Avro value has more than {_MOST_VALUES} values in it")
        if depth > _MOST_DEPTH:
            raise Undecodable(f"the Avro value nests deeper than {_MOST_DEPTH} levels")
        schema, space = _resolved(schema, space, self._names)
        kind = _kind(schema)
        if kind == "union":
            branch = self._varint()
            if not 0 <= branch < len(schema):
                raise Undecodable("the Avro value names a branch that its union does not have")
            self.skip(schema[branch], space, depth + 1)
        elif kind in ("record", "error"):
            _, space = _full_name(schema, space)
            for field in schema["fields"]:
                self.skip(field["type"], space, depth + 1)
        elif kind in ("array", "map"):
            self._skip_blocks(schema, kind, space, depth + 1)
        elif kind in _VARINTS:
            self._varint()
        elif kind in _LONG:
            self._move(self._varint())
        elif kind == "fixed":
            self._move(int(schema["size"]))
        else:
            self._move(_FIXED_BYTES[kind])

    def _skip_blocks(self, schema: Any, kind: str, space: str, depth: int) -> None:
        while count := self._varint():
            if count < 0:
                count = -count
                self._varint()
            for _ in range(count):
                if kind == "map":
                    self._move(self._varint())
                    self.skip(schema["values"], space, depth)
                else:
                    self.skip(schema["items"], space, depth)

    def _move(self, size: int) -> None:
        self._at += size
        if size < 0 or self._at > len(self._data):
            raise Undecodable("the Avro value ends too early")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            if self._at >= len(self._data) or shift > 63:
                raise Undecodable("the Avro value ends too early")
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return str(schema if isinstance(schema, str) else schema["type"])


def _resolved(schema: Any, space: str, names: Mapping[str, Any]) -> tuple[Any, str]:
    """Follow names, and types that only wrap another, to where something is declared."""
    while True:
        if isinstance(schema, str):
            found = names.get(schema if "." in schema or not space else f"{space}.{schema}")
            found = found or names.get(schema)
            return (schema, space) if found is None else found
        if isinstance(schema, list) or isinstance(schema["type"], str):
            inner = schema if isinstance(schema, list) else schema["type"]
            if inner is schema or inner in _DECLARED:
                return schema, space
            schema = inner
        else:
            schema = schema["type"]


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    name = str(schema["name"])
    if "." not in name and (space := str(schema.get("namespace", space))):
        name = f"{space}.{name}"
    return name, name.rpartition(".")[0]


_DECLARED: Final = frozenset(("record", "error", "enum", "fixed", "array", "map"))
