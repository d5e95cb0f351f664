"""Converts Avro schemas to Spark's types."""

from collections.abc import Mapping
from typing import Final

from headrace.model.error import ConfigError, InvalidArgument
from headrace.schema.avro.parsed import AvroSchema
from headrace.schema.avro.tree import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from headrace.schema.error import InvalidSchema
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.avro.logical import decimal_type
from headrace.serde.avro.nesting import Nesting

_PRIMITIVES: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
}
_LOGICAL: Final[Mapping[tuple[str, str], str]] = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP_LTZ",
    ("long", "timestamp-micros"): "TIMESTAMP_LTZ",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}


def avro_ddl(schema: str) -> str:
    """Return the Spark type of an Avro schema, as DDL.

    >>> avro_ddl('{"type":"record","name":"R","fields":[{"name":"ms","type":["null","long"]}]}')
    'STRUCT<`ms`: BIGINT>'

    Raises:
        ConfigError: the text is no Avro schema, or it has a type that Spark lacks.
    """
    root = parse_avro(schema).root
    try:
        Nesting(root)
    except InvalidArgument as error:
        raise ConfigError(f"option valueSchema: {error}") from error
    return _ddl(root)


def parse_avro(schema: str) -> AvroSchema:
    """Parse an Avro schema in JSON.

    Raises:
        ConfigError: the text is no Avro schema.
    """
    try:
        parsed = parse(SchemaText(SchemaType.AVRO, schema))
    except InvalidSchema as error:
        raise ConfigError(f"option valueSchema is no Avro schema in JSON: {error}") from error
    assert isinstance(parsed, AvroSchema)
    return parsed


def _ddl(avro: AvroType) -> str:
    match avro:
        case Union():
            others = [each for each in avro.branches if each.kind != "null"]
            if len(others) != 1:
                kinds = ", ".join(each.kind for each in avro.branches)
                raise ConfigError(f"option valueSchema has a union of several types: {kinds}")
            return _ddl(others[0])
        case Record():
            fields = (f"{_quoted(each.name)}: {_ddl(each.type)}" for each in avro.fields)
            return f"STRUCT<{', '.join(fields)}>"
        case Array():
            return f"ARRAY<{_ddl(avro.items)}>"
        case Map():
            return f"MAP<STRING, {_ddl(avro.values)}>"
        case Enum():
            return "STRING"
        case Fixed() | Primitive():
            return _value_ddl(avro)


def _value_ddl(avro: Fixed | Primitive) -> str:
    decimal = decimal_type(avro)
    if decimal is not None:
        return f"DECIMAL({decimal.precision}, {decimal.scale})"
    if isinstance(avro, Fixed):
        return "BINARY"
    logical = avro.props.get("logicalType")
    found = _LOGICAL.get((avro.kind, logical)) if isinstance(logical, str) else None
    found = found or _PRIMITIVES.get(avro.kind)
    if found is None:
        raise ConfigError(f"option valueSchema has a type that cannot be read here: {avro.kind}")
    return found


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
