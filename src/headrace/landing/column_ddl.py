"""Declared columns as Arrow's: `page STRING, ms INT`, or a file that declares them."""

import json
from pathlib import Path
from typing import Final

import pyarrow as pa

from headrace.model.error import ConfigError
from headrace.model.table.column import Column, ColumnType, parse_columns

_TYPES: Final = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def declared_columns(text: str) -> pa.Schema:
    """Return the columns of a declaration, or of a file that ends with .json or .ddl.

    A JSON file has an object of names and types: `{"page": "STRING", "ms": "INT"}`.

    >>> declared_columns("page STRING, tags ARRAY<STRING>").names
    ['page', 'tags']

    Raises:
        ConfigError: it declares no columns.
    """
    if text.endswith((".json", ".ddl")):
        text = _of_file(Path(text))
    return columns_of(text)


def _of_file(path: Path) -> str:
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"--schema {path} cannot be read: {error}") from error
    if path.suffix != ".json":
        return text
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"--schema {path} is no JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ConfigError(f'--schema {path} has to be an object: {{"page": "STRING", "ms": "INT"}}')
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in found.items())


def columns_of(text: str) -> pa.Schema:
    """Return the columns of a declaration. It may come from another user: no file is read.

    Raises:
        ConfigError: it declares no columns.
    """
    return pa.schema([_field(each) for each in parse_columns(text)])


def _field(column: Column) -> pa.Field:
    return pa.field(column.name, _type(column.type))


def _type(kind: ColumnType) -> pa.DataType:
    if kind.item is not None:
        return pa.list_(_type(kind.item))
    if kind.name == "STRUCT":
        return pa.struct([_field(each) for each in kind.fields])
    if kind.name == "DECIMAL":
        return pa.decimal128(kind.precision, kind.scale)
    return _TYPES[kind.name]
