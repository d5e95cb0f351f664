"""Checks that a schema has an end: Arrow's types are trees, so a type cannot hold itself."""

from typing import Final

from headrace.model.error import InvalidArgument
from headrace.schema.avro.tree import Array, AvroType, Fixed, Map, Primitive, Record, Union

# Code that walks a tree recurses, a few calls for each level; Python's limit is 1,000 calls.
MAX_NESTING: Final = 100

_FEWEST: Final = {"null": 0, "float": 4, "double": 8}


class Nesting:
    """The types of one schema, walked once.

    Raises:
        InvalidArgument: a type holds itself, or types are nested deeper than `MAX_NESTING`.
    """

    def __init__(self, root: AvroType) -> None:
        self._heights: dict[int, int] = {}
        self._open: set[int] = set()
        self._fewest: dict[int, int] = {}
        # The types must outlive the ids.
        self._root = root
        self._walk(root, 0)

    def fewest_bytes(self, avro: AvroType) -> int:
        """Return how many bytes a value of the type takes at least."""
        if isinstance(avro, Primitive):
            return _FEWEST.get(avro.kind, 1)
        if isinstance(avro, Fixed):
            return avro.size
        if not isinstance(avro, Record):
            return 1
        if id(avro) not in self._fewest:
            self._fewest[id(avro)] = sum(self.fewest_bytes(each.type) for each in avro.fields)
        return self._fewest[id(avro)]

    def _walk(self, avro: AvroType, depth: int) -> int:
        if id(avro) in self._open:
            assert isinstance(avro, Record)
            raise InvalidArgument(
                f"the Avro type {avro.name!r} holds itself, and no Arrow type does: "
                "use a schema without that field, or read the values as bytes"
            )
        height = self._heights.get(id(avro))
        if height is None:
            self._open.add(id(avro))
            if depth < MAX_NESTING:
                inner = (self._walk(each, depth + 1) for each in _held(avro))
                height = 1 + max(inner, default=0)
            else:
                height = 1
            self._open.remove(id(avro))
            self._heights[id(avro)] = height
        if depth + height > MAX_NESTING:
            raise InvalidArgument(
                f"the types of the Avro schema are nested more than {MAX_NESTING} levels deep: "
                "make them flatter"
            )
        return height


def _held(avro: AvroType) -> list[AvroType]:
    match avro:
        case Record():
            return [each.type for each in avro.fields]
        case Array():
            return [avro.items]
        case Map():
            return [avro.values]
        case Union():
            return list(avro.branches)
    return []
