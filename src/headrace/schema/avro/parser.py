"""From JSON to Avro's types.

The rules are those of Java's parser, with names and defaults checked:

1. A name is a letter or underscore, then letters, digits, underscores. A full name has dots
   between names.
2. A name without a dot belongs to the namespace of the type around it.
3. A type is defined once, anywhere in the document or in a reference.
4. A union has no union inside, no unnamed type twice, and no named type twice.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from headrace.schema import json_text
from headrace.schema.avro.default import fits
from headrace.schema.avro.definition import Definition, definitions_in, full_name
from headrace.schema.avro.tree import (
    MISSING,
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
from headrace.schema.error import InvalidSchema
from headrace.schema.limit import (
    MAX_DEFAULT_STEPS,
    MAX_SHOWN_CHARACTERS,
    WorkLimit,
    name_limit,
)

PRIMITIVES: Final = frozenset(
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
)
_NAMED_WORDS: Final = frozenset(["type", "name", "namespace", "doc", "aliases"])
_RECORD_WORDS: Final = _NAMED_WORDS | {"fields"}
_ENUM_WORDS: Final = _NAMED_WORDS | {"symbols", "default"}
_FIXED_WORDS: Final = _NAMED_WORDS | {"size"}
_FIELD_WORDS: Final = frozenset(["name", "type", "doc", "default", "order", "aliases"])
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_ORDERS: Final = frozenset(["ascending", "descending", "ignore"])


class AvroParser:
    """Reads one schema, and those that it refers to when their names come up."""

    def __init__(self, resolved: Mapping[str, str]) -> None:
        self._waiting = dict(resolved)
        self._named: dict[str, AvroType] = {}
        # Documents, and then what they define, once a name comes up that is not known yet.
        self._unseen: list[Any] = []
        self._definitions: dict[str, Definition] = {}
        self._early: dict[int, AvroType] = {}
        self._names = name_limit()
        self._defaults = WorkLimit(
            MAX_DEFAULT_STEPS,
            "the defaults are too much to check; make them or their unions smaller",
        )
        self._good_spaces = {""}
        self.referenced: set[str] = set()

    def parse(self, text: str) -> AvroType:
        """Return the type of a text; `referenced` then has the names that come from references."""
        return self._document(text)

    def _document(self, text: str) -> AvroType:
        value = json_text.load(text)
        self._unseen.append(value)
        return self._type(value, "")

    def _type(self, value: Any, namespace: str) -> AvroType:
        if isinstance(value, str):
            return self._by_name(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace)
        if not isinstance(value, dict):
            raise InvalidSchema(
                f"{json_text.dump(value)[:60]} is no Avro type; write a name, an object or a list"
            )
        if id(value) in self._early:
            return self._early.pop(id(value))
        return self._object(value, namespace)

    def _object(self, value: dict[str, Any], namespace: str) -> AvroType:
        if "type" not in value:
            raise InvalidSchema(f"the type {json_text.dump(value)[:60]} has no 'type'")
        kind = value["type"]
        if not isinstance(kind, str):
            return self._type(kind, namespace)
        match kind:
            case "record" | "error":
                return self._record(value, namespace)
            case "enum":
                return self._enum(value, namespace)
            case "fixed":
                return self._fixed(value, namespace)
            case "array":
                items = self._type(_needed(value, "items", "an array"), namespace)
                return Array(items, _props(value, {"type", "items"}))
            case "map":
                values = self._type(_needed(value, "values", "a map"), namespace)
                return Map(values, _props(value, {"type", "values"}))
        if kind in PRIMITIVES:
            return Primitive(kind, _props(value, {"type"}))
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        self._names.spend(len(namespace) + len(name))
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._lookup(full) or self._lookup(name)
        if found is None:
            raise InvalidSchema(
                f"{full!r} is no type that is known here; define it,"
                " or add a reference with this name"
            )
        return found

    def _lookup(self, name: str) -> AvroType | None:
        if name not in self._named:
            self._read_ahead(name)
        if name not in self._named and name in self._waiting:
            self._read_reference(name)
        while name not in self._named and self._waiting:
            # A reference's name may be its first type's only; others of its types count too.
            self._read_reference(next(iter(self._waiting)))
        return self._named.get(name)

    def _read_ahead(self, name: str) -> None:
        """Read a definition that comes later in its document, as Java's library does since 1.12."""
        while self._unseen:
            self._definitions |= definitions_in(self._unseen.pop(), self._names)
        definition = self._definitions.pop(name, None)
        if definition is not None:
            found = self._type(definition.value, definition.namespace)
            self._early[id(definition.value)] = found

    def _read_reference(self, name: str) -> None:
        before = len(self._named)
        text = self._waiting.pop(name)
        try:
            self._document(text)
        except InvalidSchema as error:
            raise InvalidSchema(f"in the referenced schema {name!r}: {error}") from None
        self.referenced |= set(islice(self._named, before, None))

    def _define(self, new: Record | Enum | Fixed) -> None:
        if new.name in self._named or new.name in PRIMITIVES:
            raise InvalidSchema(f"the type {new.name!r} is defined twice; use its name instead")
        self._named[new.name] = new

    def _record(self, value: dict[str, Any], namespace: str) -> Record:
        record = Record(*self._head(value, namespace, "record"), _props(value, _RECORD_WORDS))
        record.is_error = value["type"] == "error"
        fields = _needed(value, "fields", f"the record {record.name!r}")
        if not isinstance(fields, list):
            raise InvalidSchema(f"'fields' of the record {record.name!r} must be a list")
        # Defined before its fields are read: they may use it.
        self._define(record)
        seen: set[str] = set()
        read: list[Field] = []
        for each in fields:
            field = self._field(each, record)
            if field.name in seen:
                raise InvalidSchema(f"the record {record.name!r} has two fields {field.name!r}")
            seen.add(field.name)
            read.append(field)
        record.fields = tuple(read)
        return record

    def _field(self, value: Any, record: Record) -> Field:
        where = f"of the record {record.name!r}"
        if not isinstance(value, dict):
            raise InvalidSchema(f"a field {where} must be an object with 'name' and 'type'")
        name = _needed(value, "name", f"a field {where}")
        _check_name(name, f"a field {where}")
        if "type" not in value:
            raise InvalidSchema(f"the field {name!r} {where} has no 'type'")
        kind = self._type(value["type"], record.namespace)
        default = value.get("default", MISSING)
        # NaN and the infinities are written as strings, and stay strings.
        is_word = kind.kind in ("float", "double") and default in _NOT_FINITE
        if kind.kind in ("float", "double") and isinstance(default, str) and not is_word:
            default = _number(default, name, where)
        if default is not MISSING and not is_word and not fits(default, kind, self._defaults):
            raise InvalidSchema(
                f"the default {json_text.dump(default)[:60]} of the field {name!r} {where}"
                f" is no {_describe(kind)}"
            )
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(
                f"'order' of the field {name!r} {where} must be ascending, descending or ignore"
            )
        aliases = _strings(value, "aliases", f"the field {name!r} {where}")
        props = _props(value, _FIELD_WORDS)
        return Field(name, kind, default, _doc(value), order.lower(), aliases, props)

    def _enum(self, value: dict[str, Any], namespace: str) -> Enum:
        enum = Enum(*self._head(value, namespace, "enum"), _props(value, _ENUM_WORDS))
        where = f"the enum {enum.name!r}"
        _needed(value, "symbols", where)
        enum.symbols = _strings(value, "symbols", where)
        for symbol in enum.symbols:
            _check_name(symbol, f"a symbol of {where}")
        if len(set(enum.symbols)) < len(enum.symbols):
            raise InvalidSchema(f"{where} has a symbol twice")
        enum.default = value.get("default")
        if enum.default is not None and enum.default not in enum.symbols:
            raise InvalidSchema(f"the default of {where} must be one of its symbols")
        self._define(enum)
        return enum

    def _fixed(self, value: dict[str, Any], namespace: str) -> Fixed:
        fixed = Fixed(*self._head(value, namespace, "fixed"), _props(value, _FIXED_WORDS))
        size = _needed(value, "size", f"the fixed {fixed.name!r}")
        if type(size) is not int or not 0 <= size < 1 << 31:
            raise InvalidSchema(f"'size' of the fixed {fixed.name!r} must be a number of bytes")
        fixed.size = size
        self._define(fixed)
        return fixed

    def _head(
        self, value: dict[str, Any], namespace: str, kind: str
    ) -> tuple[str, str | None, tuple[str, ...]]:
        name = _needed(value, "name", f"a {kind}")
        own = value.get("namespace")
        if own is not None and not isinstance(own, str):
            raise InvalidSchema(f"'namespace' of a {kind} must be a string")
        if not isinstance(name, str):
            raise InvalidSchema(f"'name' of a {kind} must be a string")
        full = full_name(name, own, namespace)
        space, _, simple = full.rpartition(".")
        what = f"the {kind} {full[:MAX_SHOWN_CHARACTERS]!r}"
        aliases = _strings(value, "aliases", what)
        self._names.spend(len(full) + len(space) * len(aliases))
        if space not in self._good_spaces:
            for part in space.split("."):
                _check_name(part, what)
            self._good_spaces.add(space)
        _check_name(simple, what)
        qualified = (
            alias if "." in alias or not space else f"{space}.{alias}" for alias in aliases
        )
        return full, _doc(value), tuple(qualified)

    def _union(self, value: list[Any], namespace: str) -> Union:
        branches = tuple(self._type(each, namespace) for each in value)
        seen: set[str] = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise InvalidSchema("a union must not hold a union; list its branches in one union")
            key = branch.name if isinstance(branch, Named) else branch.kind
            if key in seen:
                raise InvalidSchema(f"a union has {key!r} twice")
            seen.add(key)
        return Union(branches)


def _check_name(name: Any, what: str) -> None:
    if (
        not isinstance(name, str)
        or not name
        or not (name[0] == "_" or name[0].isalpha())
        or not name.replace("_", "a").isalnum()
    ):
        raise InvalidSchema(
            f"{str(name)[:60]!r} is no name for {what};"
            " a name is letters, digits and underscores and begins with no digit"
        )


def _needed(value: dict[str, Any], key: str, what: str) -> Any:
    if key not in value:
        raise InvalidSchema(f"{what} has no {key!r}")
    return value[key]


def _strings(value: dict[str, Any], key: str, what: str) -> tuple[str, ...]:
    found = value.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidSchema(f"{key!r} of {what} must be a list of strings")
    return tuple(found)


def _doc(value: dict[str, Any]) -> str | None:
    doc = value.get("doc")
    return doc if isinstance(doc, str) else None


def _props(value: dict[str, Any], defined: frozenset[str] | set[str]) -> Props:
    return {key: each for key, each in value.items() if key not in defined}


def _number(text: str, name: str, where: str) -> float:
    try:
        return json_text.Decimal(text)
    except ValueError:
        raise InvalidSchema(
            f"the default {text[:60]!r} of the field {name!r} {where} is no number"
        ) from None


def _describe(kind: AvroType) -> str:
    if isinstance(kind, Union):
        return "type of its union"
    return kind.name if isinstance(kind, Named) else kind.kind
