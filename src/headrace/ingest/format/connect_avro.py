"""Connect's schemas and values as Avro, in the form that Confluent's AvroConverter gives them.

Records, unions and attributes (`connect.name`, `connect.version`, ...) are the converter's, so that
its readers get Connect's types back. Bytes are Base64 in Connect's JSON, and bytes in Avro. Names
that Avro does not have get underscores, as with Debezium's `field.name.adjustment.mode = avro`.
"""

import base64
import binascii
import json
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.ingest.format.avro_event import encode_long
from headrace.ingest.format.connect_schema import DECIMAL, ConnectSchema, NotConnect

Write = Callable[[Any], bytes]
"""Returns the Avro bytes of a value of Connect's JSON."""

_PRIMITIVES: Final = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
# Types that Avro does not tell apart.
_NARROW: Final = ("int8", "int16")
_DECIMAL_PRECISION: Final = 64
_UNNAMED: Final = "io.confluent.connect.avro.ConnectDefault"
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def avro_schema(schema: ConnectSchema) -> str:
    """Return the Avro schema of a key or value.

    >>> avro_schema({"type": "struct", "name": "shop.Key", "fields": [
    ...     {"type": "int32", "optional": False, "field": "id"}]})
    '{"type":"record","name":"Key","namespace":"shop","fields":[{"name":"id","type":"int"}],\
"connect.name":"shop.Key"}'

    Raises:
        NotConnect: it has a type that Connect does not have, or two fields of one name.
    """
    try:
        return json.dumps(_Schemas().union(schema), separators=(",", ":"))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotConnect(f"an event's schema is none of Connect: {error!r}") from error


def avro_writer(schema: ConnectSchema) -> Write:
    """Return what writes values of a schema.

    It raises NotConnect for a value that does not fit, and names the field.

    Raises:
        NotConnect: the schema has a type that Connect does not have.
    """
    try:
        return _union(schema)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotConnect(f"an event's schema is none of Connect: {error!r}") from error


# -- schemas -----------------------------------------------------------------------------------


class _Schemas:
    """Makes the schemas of one message: a record is defined where it comes first, and named after.

    Attributes:
        records: by full name, the schema of Connect that it was made of.
    """

    def __init__(self) -> None:
        self.records: dict[str, object] = {}

    def union(self, schema: ConnectSchema) -> Any:
        """Return a type, in a union with null where it is optional."""
        made = self.base(schema)
        if not schema.get("optional"):
            return made
        return ["null", made] if _default_of(schema) is None else [made, "null"]

    def base(self, schema: ConnectSchema) -> Any:
        kind = schema["type"]
        if kind == "struct":
            return self.record(schema)
        made: dict[str, Any]
        if kind == "array":
            made = {"type": "array", "items": self.union(schema["items"])}
        elif kind == "map":
            _check_map(schema)
            made = {"type": "map", "values": self.union(schema["values"])}
        else:
            made = {"type": _PRIMITIVES[kind]}
        if schema.get("name") == DECIMAL:
            made |= _decimal(schema)
        made |= _attributes(schema)
        if kind in _NARROW:
            made["connect.type"] = kind
        return made if len(made) > 1 else made["type"]

    def record(self, schema: ConnectSchema) -> Any:
        full = ".".join(_name(part) for part in schema.get("name", _UNNAMED).split("."))
        namespace, _, name = full.rpartition(".")
        content = {
            key: each
            for key, each in schema.items()
            if key not in ("field", "optional", "default", "index")
        }
        if full in self.records:
            if self.records[full] != content:
                raise NotConnect(f"an event's schema has two different structs {full}")
            return full
        self.records[full] = content
        names = field_names(schema["fields"])
        fields = []
        for written, each in zip(names, schema["fields"], strict=True):
            field = {"name": written, "type": self.union(each)}
            if (default := _default_of(each)) is not None:
                field["default"] = default
            elif each.get("optional"):
                field["default"] = None
            fields.append(field)
        made: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            made["namespace"] = namespace
        return {**made, "fields": fields, **_attributes(schema)}


def field_names(fields: Sequence[ConnectSchema]) -> list[str]:
    """Return the names that Avro has for fields.

    Raises:
        NotConnect: two would have the same.
    """
    names = [_name(each["field"]) for each in fields]
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise NotConnect(f"two columns are both {twice} in Avro: rename one of them")
    return names


def _name(name: str) -> str:
    adjusted = _NO_NAME.sub("_", name)
    return f"_{adjusted}" if adjusted[:1].isdigit() or not adjusted else adjusted


def _decimal(schema: ConnectSchema) -> dict[str, Any]:
    parameters = schema.get("parameters") or {}
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", _DECIMAL_PRECISION))
    made: dict[str, Any] = {"scale": scale, "precision": precision}
    return {**made, "logicalType": "decimal"} if 0 <= scale <= precision else made


def _attributes(schema: ConnectSchema) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if schema.get("doc") is not None:
        made["connect.doc"] = schema["doc"]
    if schema.get("version") is not None:
        made["connect.version"] = schema["version"]
    if schema.get("parameters"):
        made["connect.parameters"] = schema["parameters"]
    if (default := _default_of(schema)) is not None:
        made["connect.default"] = default
    if schema.get("name") is not None:
        made["connect.name"] = schema["name"]
    return made


def _default_of(schema: ConnectSchema) -> Any:
    """Return the default of a schema; None without one, and for NaN, which JSON does not have."""
    value = schema.get("default")
    if isinstance(value, str) and schema["type"] in ("float", "double"):
        return None
    return _default(schema, value)


def _default(schema: ConnectSchema, value: Any) -> Any:
    """Return a default as Avro's schemas write it: bytes are a text of their characters."""
    if value is None:
        return None
    match schema["type"]:
        case "bytes":
            return base64.b64decode(value).decode("latin-1")
        case "array":
            return [_default(schema["items"], each) for each in value]
        case "struct":
            names = field_names(schema["fields"])
            fields = zip(names, schema["fields"], strict=True)
            return {name: _default(each, value.get(each["field"])) for name, each in fields}
    return value


def _check_map(schema: ConnectSchema) -> None:
    keys = schema["keys"]
    if keys["type"] != "string" or keys.get("optional"):
        raise NotConnect("an event's schema has a map whose keys are no texts")


# -- values ------------------------------------------------------------------------------------


def _union(schema: ConnectSchema) -> Write:
    write = _base(schema)
    if not schema.get("optional"):
        return write
    null, other = (b"\0", b"\2") if _default_of(schema) is None else (b"\2", b"\0")
    return lambda value: null if value is None else other + write(value)


def _base(schema: ConnectSchema) -> Write:
    kind = schema["type"]
    match kind:
        case "struct":
            return _record(schema["fields"])
        case "array":
            return _array(_union(schema["items"]))
        case "map":
            _check_map(schema)
            return _map(_union(schema["values"]))
        case "int8" | "int16" | "int32" | "int64":
            return _integer(int(kind[3:]))
    return _WRITERS[kind]


def _record(fields: Sequence[ConnectSchema]) -> Write:
    writers = [(each["field"], _union(each)) for each in fields]

    def write(value: Any) -> bytes:
        parts = []
        for name, one in writers:
            try:
                parts.append(one(value.get(name)))
            except NotConnect as error:
                raise NotConnect(f"{name}.{error}") from None
            except (TypeError, ValueError, AttributeError, ArithmeticError, struct.error) as error:
                raise NotConnect(f"{name}: {_problem(value, name, error)}") from None
        return b"".join(parts)

    return write


def _problem(value: Any, name: str, error: Exception) -> str:
    if not isinstance(value, dict):
        return "there is no struct"
    if value.get(name) is None:
        return (
            "it is null, and its column is NOT NULL by now: drop that constraint until the change "
            "was captured"
        )
    return str(error)[:200]


def _array(item: Write) -> Write:
    def write(value: Any) -> bytes:
        if not isinstance(value, list):
            raise ValueError("the value is no array")
        if not value:
            return b"\0"
        return b"".join((encode_long(len(value)), *map(item, value), b"\0"))

    return write


def _map(item: Write) -> Write:
    def write(value: Any) -> bytes:
        if not value:
            return b"\0"
        pairs = (_string(key) + item(each) for key, each in value.items())
        return b"".join((encode_long(len(value)), *pairs, b"\0"))

    return write


def _integer(bits: int) -> Write:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def write(value: Any) -> bytes:
        if type(value) is not int:
            raise ValueError("the value is no integer")
        if not low <= value <= high:
            raise ValueError(f"{value} is beyond an integer of {bits} bits")
        return encode_long(value)

    return write


def _string(value: Any) -> bytes:
    data: bytes = value.encode("utf-8", "replace")
    return encode_long(len(data)) + data


def _bytes(value: Any) -> bytes:
    try:
        data = base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("the value is no Base64") from None
    return encode_long(len(data)) + data


def _boolean(value: Any) -> bytes:
    if type(value) is not bool:
        raise ValueError("the value is neither true nor false")
    return b"\1" if value else b"\0"


# Infinities and NaN are texts in Connect's JSON, which float() reads.
_WRITERS: Final[dict[str, Write]] = {
    "string": _string,
    "bytes": _bytes,
    "boolean": _boolean,
    "float": lambda value: _FLOAT.pack(float(value)),
    "double": lambda value: _DOUBLE.pack(float(value)),
}
