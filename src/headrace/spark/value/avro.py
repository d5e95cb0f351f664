"""Decodes Avro values: each is one datum of the given schema, without a file header."""

import pyarrow as pa

from headrace.model.error import ConfigError, InvalidArgument
from headrace.serde.avro.reader import AvroColumnReader
from headrace.spark.value.avro_schema import parse_avro
from headrace.spark.value.error import Undecodable


class AvroDecoder:
    """Decodes whole columns with a program compiled from the schema.

    Args:
        schema: an Avro schema in JSON.
        bad_as_null: whether a value that cannot be decoded is null, or raises `Undecodable`.

    Raises:
        ConfigError: the schema is no Avro schema, or cannot be read into columns.
    """

    def __init__(self, schema: str, *, bad_as_null: bool) -> None:
        self._bad_as_null = bad_as_null
        try:
            self._reader = AvroColumnReader(parse_avro(schema))
        except InvalidArgument as error:
            raise ConfigError(f"option valueSchema: {error}") from error

    def __call__(self, values: pa.Array, kind: pa.DataType) -> pa.Array:
        column = self._reader.read(values)
        if len(column.bad_rows) and not self._bad_as_null:
            raise Undecodable(column.problem(int(column.bad_rows[0])))
        try:
            return column.values.cast(kind)
        except pa.ArrowInvalid as error:  # milliseconds that Spark's microseconds cannot hold
            raise Undecodable(str(error)) from error
