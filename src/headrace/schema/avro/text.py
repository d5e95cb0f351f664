"""Avro's types written back, key by key in the order in which Java's library writes them.

That text is what Confluent's registry stores and compares, so a schema that was registered there
is found again here. Two texts that differ in spaces, in the order of keys or in superfluous
namespaces are the same.
"""

from typing import Any

from headrace.schema import json_text
from headrace.schema.avro.tree import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Props,
    Record,
    Union,
)
from headrace.schema.json_text import Decimal


class AvroWriter:
    """Writes one tree; `known` are the named types that stay names, as those of references do."""

    def __init__(
        self, known: set[str] | frozenset[str] = frozenset(), normal: bool = False
    ) -> None:
        self._written = set(known)
        self._normal = normal

    def text(self, root: AvroType) -> str:
        return json_text.dump(self._value(root, ""))

    def _value(self, kind: AvroType, namespace: str) -> Any:
        match kind:
            case Primitive():
                props = self._props(kind.props)
                return {"type": kind.kind, **props} if props else kind.kind
            case Union():
                return [self._value(each, namespace) for each in kind.branches]
            case Array():
                items = self._value(kind.items, namespace)
                return {"type": "array", "items": items, **self._props(kind.props)}
            case Map():
                values = self._value(kind.values, namespace)
                return {"type": "map", "values": values, **self._props(kind.props)}
        if kind.name in self._written:
            return kind.simple_name if kind.namespace == namespace else kind.name
        self._written.add(kind.name)
        return self._named(kind, namespace)

    def _named(self, kind: Record | Enum | Fixed, namespace: str) -> dict[str, Any]:
        is_error = isinstance(kind, Record) and kind.is_error
        value: dict[str, Any] = {"type": "error" if is_error else kind.kind}
        value["name"] = kind.simple_name
        if kind.namespace != namespace:
            value["namespace"] = kind.namespace
        if kind.doc is not None and not (self._normal and not kind.doc):
            value["doc"] = kind.doc
        match kind:
            case Record():
                value["fields"] = [self._field(each, kind.namespace) for each in kind.fields]
            case Enum():
                value["symbols"] = list(kind.symbols)
                if kind.default is not None:
                    value["default"] = kind.default
            case Fixed():
                value["size"] = kind.size
        value.update(self._props(kind.props))
        if kind.aliases:
            value["aliases"] = self._aliases(kind)
        return value

    def _field(self, field: Field, namespace: str) -> dict[str, Any]:
        value: dict[str, Any] = {"name": field.name, "type": self._value(field.type, namespace)}
        if field.doc is not None:
            value["doc"] = field.doc
        if field.has_default:
            value["default"] = self._json(field.default)
        if field.order != "ascending":
            value["order"] = field.order
        if field.aliases:
            value["aliases"] = self._in_order(field.aliases)
        value.update(self._props(field.props))
        return value

    def _aliases(self, kind: Named) -> list[str]:
        prefix = f"{kind.namespace}." if kind.namespace else ""
        return [
            alias.removeprefix(prefix) if alias.rpartition(".")[0] == kind.namespace else alias
            for alias in self._in_order(kind.aliases)
        ]

    def _in_order(self, names: tuple[str, ...]) -> list[str]:
        unique = dict.fromkeys(names)
        return sorted(unique) if self._normal else list(unique)

    def _props(self, props: Props) -> Props:
        found: Props = self._json(props) if props else props
        return found

    def _json(self, value: Any) -> Any:
        """Return a default or attribute as it is written, sorted in the normalised form."""
        if isinstance(value, dict):
            keys = sorted(value) if self._normal else value
            return {key: self._json(value[key]) for key in keys}
        if isinstance(value, list):
            return [self._json(each) for each in value]
        return Decimal(_java_text(value)) if isinstance(value, float) else value


def _java_text(number: float) -> str:
    """Return a number as Java's Double.toString writes it: 1.5, 1000.0, 1.0E10."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return format(float(number), "f") if "e" in repr(float(number)) else repr(float(number))
    digits, _, exponent = format(float(number), "e").partition("e")
    for precision in range(17):
        text = format(float(number), f".{precision}e")
        if float(text) == number:
            digits, _, exponent = text.partition("e")
            break
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
