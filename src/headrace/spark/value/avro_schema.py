"""Converts Avro schemas to Spark's types."""

import json
from collections.abc import Mapping
from typing import Any, Final

from headrace.model.error import ConfigError

_PRIMITIVES: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "fixed": "BINARY",
    "string": "STRING",
    "enum": "STRING",
}
_LOGICAL: Final[Mapping[str, str]] = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP_LTZ",
    "timestamp-micros": "TIMESTAMP_LTZ",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
    "uuid": "STRING",
}


def avro_ddl(schema: str) -> str:
    """Return the Spark type of an Avro schema, as DDL.

    >>> avro_ddl('{"type":"record","name":"R","fields":[{"name":"ms","type":["null","long"]}]}')
    'STRUCT<`ms`: BIGINT>'

    Raises:
        ConfigError: the text is no Avro schema, or it has a type that Spark lacks.
    """
    from fastavro.schema import expand_schema

    return _ddl(expand_schema(parse_avro(schema)))


def parse_avro(schema: str) -> Any:
    """Parse an Avro schema in JSON, for fastavro.

    Raises:
        ConfigError: the text is no Avro schema, or fastavro is not installed.
    """
    try:
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType
    except ImportError:
        raise ConfigError("valueFormat avro needs fastavro: pip install fastavro") from None
    try:
        return parse_schema(json.loads(schema))
    except (ValueError, TypeError, KeyError, SchemaParseException, UnknownType) as error:
        raise ConfigError(f"option valueSchema is no Avro schema in JSON: {error}") from error


def _ddl(schema: Any) -> str:
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise ConfigError(f"option valueSchema has a union of several types: {schema}")
        return _ddl(others[0])
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, dict | list):
        return _ddl(kind)
    if kind in ("record", "error"):
        fields = (f"{_quoted(each['name'])}: {_ddl(each['type'])}" for each in schema["fields"])
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "array":
        return f"ARRAY<{_ddl(schema['items'])}>"
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']}, {schema.get('scale', 0)})"
    found = _LOGICAL.get(logical) if logical else None
    if found is None:
        found = _PRIMITIVES.get(kind)
    if found is None:
        raise ConfigError(f"option valueSchema has a type that cannot be read here: {kind}")
    return found


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
