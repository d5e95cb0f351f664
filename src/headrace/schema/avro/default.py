"""Whether a JSON value is a default of a type, by the rules of Java's library since 1.11."""

from typing import Any, Final

from headrace.schema.avro.tree import (
    Array,
    AvroType,
    Map,
    Primitive,
    Record,
    Union,
)
from headrace.schema.limit import WorkLimit

_RANGE: Final = {"int": 1 << 31, "long": 1 << 63}


def fits(value: Any, kind: AvroType, limit: WorkLimit) -> bool:
    """Return whether the value can be the default; a union's may be of any of its branches.

    Raises:
        InvalidSchema: there are more pairs of values and types to try than the limit allows.
    """
    return _fits(value, kind, _Known(limit))


class _Known(dict[tuple[int, int], bool]):
    """Pairs of value and type that are decided: branches of unions may share many."""

    def __init__(self, limit: WorkLimit) -> None:
        super().__init__()
        self.limit = limit


def _fits(value: Any, kind: AvroType, known: _Known) -> bool:
    """Decide each pair of value and type once."""
    pair = id(value), id(kind)
    if pair not in known:
        known.limit.spend(1)
        known[pair] = _decide(value, kind, known)
    return known[pair]


def _decide(value: Any, kind: AvroType, known: _Known) -> bool:
    match kind:
        case Primitive():
            return _fits_primitive(value, kind.kind)
        case Array():
            return isinstance(value, list) and all(_fits(each, kind.items, known) for each in value)
        case Map():
            return isinstance(value, dict) and all(
                _fits(each, kind.values, known) for each in value.values()
            )
        case Union():
            return any(_fits(value, branch, known) for branch in kind.branches)
        case Record():
            return isinstance(value, dict) and all(
                _fits(value[field.name], field.type, known)
                if field.name in value
                else field.has_default
                for field in kind.fields
            )
        case _:  # enum and fixed; Java does not look at the symbols and the length either
            return isinstance(value, str)


def _fits_primitive(value: Any, kind: str) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = _RANGE[kind]
            return type(value) is int and -limit <= value < limit
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return isinstance(value, str)
