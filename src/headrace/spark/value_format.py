"""How the bytes of values become columns: `valueFormat`, `valueSchema`, `valueMode`.

Rule 1: a whole column is decoded in one step. Only when that step meets bad values is the column
cut in halves until they are found, so that good data never pays for it.
Rule 2: a value that cannot be decoded is null (PERMISSIVE) or fails the read (FAILFAST). The whole
value is: a row never holds half of it.
Rule 3: a null value, a tombstone, is null in every mode.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headrace.model.error import ConfigError, HeadraceError

VALUE_FORMATS: Final = ("raw", "string", "json", "csv", "avro")
VALUE_MODES: Final = ("PERMISSIVE", "FAILFAST")

_SHOWN_BYTES: Final = 80


class BadValue(HeadraceError):
    """A value that is not what valueFormat and valueSchema say, with valueMode FAILFAST."""


class Undecodable(Exception):
    """Raised by a `ColumnDecoder`: not every value of the column is sound."""


ColumnDecoder = Callable[[pa.Array, pa.DataType], pa.Array]
"""Turns binary values without nulls into a column of the type and the same length, or raises
`Undecodable`."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """What was asked for. The schema is a text: it is understood where Spark is."""

    name: str
    schema: str | None
    fail_fast: bool

    @classmethod
    def of(cls, name: str, schema: str | None, mode: str) -> "ValueFormat":
        """Raises:
        ConfigError: a format without its schema, or the other way round.
        """
        if name in ("raw", "string"):
            if schema is not None:
                raise ConfigError(
                    f"option valueSchema has no meaning with valueFormat {name}: "
                    "set valueFormat to json, csv or avro"
                )
        elif not schema:
            raise ConfigError(
                f"valueFormat {name} needs the option valueSchema, as in page STRING, ms INT"
            )
        found = cls(name, schema, mode == "FAILFAST")
        found.ddl()
        return found

    def ddl(self) -> str:
        """The type of the column, as Spark's DDL.

        Raises:
            ConfigError: an Avro or JSON schema that is none.
        """
        if self.schema is None:
            return "STRING" if self.name == "string" else "BINARY"
        if self.name == "avro":
            from headrace.spark.value_avro import avro_ddl

            return avro_ddl(self.schema)
        if self.schema.lstrip().startswith("{"):
            return _json_ddl(self.schema)
        return f"STRUCT<{self.schema}>"

    def decoder(self, kind: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
        """What turns a column of bytes into one of this type; None when it stays as it is.

        Raises:
            ConfigError: the format cannot hold such a type.
        """
        if self.name == "raw":
            return None
        if self.name in ("json", "csv"):
            _check_type(self.name, kind)
        return _Decoding(self._column_decoder(), kind, self)

    def _column_decoder(self) -> ColumnDecoder:
        if self.name == "string":
            return _decode_strings
        if self.name == "json":
            from headrace.spark.value_json import decode_json

            return decode_json
        if self.name == "csv":
            from headrace.spark.value_csv import decode_csv

            return decode_csv
        from headrace.spark.value_avro import AvroDecoder

        assert self.schema is not None
        return AvroDecoder(self.schema)


class _Decoding:
    """One column after the other, with what to do about bad values."""

    def __init__(self, decode: ColumnDecoder, kind: pa.DataType, value_format: ValueFormat) -> None:
        self._decode = decode
        self._kind = kind
        self._format = value_format

    def __call__(self, values: pa.Array) -> pa.Array:
        if values.null_count == 0:
            return self._halve(values)
        present = values.drop_null()
        decoded = self._halve(present)
        # Each row takes the next decoded value, or none.
        valid = values.is_valid()
        places = pa.compute.subtract(pa.compute.cumulative_sum(valid.cast(pa.int64())), 1)
        return decoded.take(pa.compute.if_else(valid, places, pa.scalar(None, pa.int64())))

    def _halve(self, values: pa.Array) -> pa.Array:
        if len(values) == 0:
            return pa.nulls(0, self._kind)
        try:
            return self._decode(values, self._kind)
        except Undecodable as error:
            if len(values) == 1:
                return self._bad(values, error)
        middle = len(values) // 2
        halves = [self._halve(values.slice(0, middle)), self._halve(values.slice(middle))]
        return pa.concat_arrays(halves)

    def _bad(self, values: pa.Array, error: Undecodable) -> pa.Array:
        if self._format.fail_fast:
            shown = bytes(values[0].as_py()[:_SHOWN_BYTES])
            raise BadValue(
                f"the value {shown!r} is no {self._format.name} of the type {self._kind}: {error}; "
                "to read such values as null, set the option valueMode to PERMISSIVE"
            ) from error
        return pa.nulls(1, self._kind)


def _decode_strings(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise Undecodable("it is not UTF-8") from error


def _json_ddl(text: str) -> str:
    """A schema as `StructType.json()` writes it."""
    try:
        return _ddl(StructType.fromJson(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise ConfigError(
            f"option valueSchema is no schema in JSON as StructType.json() writes it: {error}"
        ) from error


def _ddl(kind: DataType) -> str:
    """A type as DDL, with every name in quotes, which `simpleString()` leaves out."""
    if isinstance(kind, StructType):
        fields = (f"`{each.name.replace('`', '``')}`: {_ddl(each.dataType)}" for each in kind)
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_ddl(kind.keyType)}, {_ddl(kind.valueType)}>"
    return str(kind.simpleString())


def _check_type(name: str, kind: pa.DataType) -> None:
    """Raises:
    ConfigError: Arrow's readers do not make such columns.
    """
    if not pa.types.is_struct(kind):
        raise ConfigError(f"valueFormat {name} makes a struct, not {kind}")
    for each in kind:
        nested = pa.types.is_nested(each.type)
        if name == "csv" and nested:
            raise ConfigError(f"valueFormat csv cannot have the nested column {each.name}")
        if pa.types.is_map(each.type):
            raise ConfigError(
                f"valueFormat json cannot decode the map {each.name}: "
                "leave values raw and use from_json"
            )
        if pa.types.is_struct(each.type):
            _check_type(name, each.type)
