"""Avro schemas and Spark's types, both ways.

Types that Spark's Avro functions have too: a union with null is a nullable column, a map has
strings as keys, an enum is a string. Times of day and UUIDs are what Avro stores: a number or a
string. A union of several types has no column.
"""

import json
import re
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.model.error import ConfigError
from headrace.schema.parsed import ParsedSchema

_PRIMITIVES: Final[dict[str, DataType]] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
}
_LOGICAL: Final[dict[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
}
_DECIMAL_DIGITS: Final = 38
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


def fast_schema(schema: ParsedSchema) -> Any:
    """Return a schema as fastavro takes it, with the logical types that Spark has and no others.

    Raises:
        ConfigError: fastavro is not installed.
    """
    try:
        from fastavro import parse_schema
    except ImportError:
        raise ConfigError("Avro values need fastavro: pip install fastavro") from None
    return parse_schema(_plain(json.loads(schema.formatted("resolved"))))


def avro_type(schema: ParsedSchema) -> DataType:
    """Return the type of a column with values of a schema.

    Raises:
        ConfigError: it has a type that no column has.
    """
    from fastavro.schema import expand_schema

    return _type(expand_schema(fast_schema(schema)), "the value")


def avro_text(kind: pa.DataType, subject: str) -> str:
    """Return an Avro schema for the values of a column, named after its subject.

    >>> avro_text(pa.struct([pa.field("ms", pa.int64(), nullable=False)]), "page-views-value")
    '{"type":"record","name":"page_views","fields":[{"name":"ms","type":"long"}]}'

    Raises:
        ConfigError: a type that Avro does not have.
    """
    name = _name(re.sub(r"-(key|value)$", "", subject))
    return json.dumps(_derived(kind, name), separators=(",", ":"))


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _plain(each) if key in ("type", "items", "values") else each
        for key, each in schema.items()
    }
    if "fields" in found:
        found["fields"] = [{**each, "type": _plain(each["type"])} for each in found["fields"]]
    if found.get("logicalType") not in (*_LOGICAL, "decimal"):
        found.pop("logicalType", None)
    return found


def _type(schema: Any, where: str) -> DataType:
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise ConfigError(f"{where} has a union of several types, for which Spark has no type")
        return _type(others[0], where)
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, dict | list):
        return _type(kind, where)
    if kind in ("record", "error"):
        return StructType(
            [
                StructField(each["name"], _type(each["type"], f"the field {each['name']}"))
                for each in schema["fields"]
            ]
        )
    if kind == "array":
        return ArrayType(_type(schema["items"], where))
    if kind == "map":
        return MapType(StringType(), _type(schema["values"], where))
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if logical == "decimal" and schema["precision"] <= _DECIMAL_DIGITS:
        return DecimalType(schema["precision"], schema.get("scale", 0))
    found = _LOGICAL.get(logical) if logical else _PRIMITIVES.get(kind)
    if found is None:
        raise ConfigError(
            f"{where} is of the type {kind}, which holds itself or has no type in Spark"
        )
    return found


def _derived(kind: pa.DataType, name: str) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return {
            "type": "record",
            "name": name,
            "fields": [_field(each, f"{name}_{_name(each.name)}") for each in kind],
        }
    if types.is_map(kind):
        if not types.is_string(kind.key_type) and not types.is_large_string(kind.key_type):
            raise ConfigError("Avro has maps with strings as keys only: cast the keys to STRING")
        return {"type": "map", "values": _or_null(kind.item_field, f"{name}_value")}
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "items": _or_null(kind.value_field, f"{name}_item")}
    if types.is_decimal(kind):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if types.is_timestamp(kind):
        logical = "timestamp-micros" if kind.tz else "local-timestamp-micros"
        return {"type": "long", "logicalType": logical}
    if types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    for found, test in _TESTS.items():
        if any(each(kind) for each in test):
            return found
    raise ConfigError(f"Avro has no type for {kind}: cast the column {name}")


_TESTS: Final = {
    "boolean": (pa.types.is_boolean,),
    "int": (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32),
    "long": (pa.types.is_int64,),
    "float": (pa.types.is_float32,),
    "double": (pa.types.is_float64,),
    "bytes": (pa.types.is_binary, pa.types.is_large_binary),
    "string": (pa.types.is_string, pa.types.is_large_string),
}


def _field(field: pa.Field, name: str) -> dict[str, Any]:
    if _name(field.name) != field.name:
        raise ConfigError(
            f"Avro has no field called {field.name!r}: rename the column to {_name(field.name)}"
        )
    found = {"name": field.name, "type": _or_null(field, name)}
    return {**found, "default": None} if field.nullable else found


def _or_null(field: pa.Field, name: str) -> Any:
    found = _derived(field.type, name)
    return ["null", found] if field.nullable else found


def _name(text: str) -> str:
    found = _NO_NAME.sub("_", text)
    return f"_{found}" if not found or found[0].isdigit() else found
