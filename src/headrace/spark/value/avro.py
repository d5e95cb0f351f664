"""Decodes Avro values: each is one datum of the given schema, without a file header."""

import pyarrow as pa

from headrace.model.error import ConfigError, InvalidArgument
from headrace.serde.avro.reader import AvroColumnReader, ReadColumn
from headrace.spark.value.avro_projection import projected
from headrace.spark.value.avro_schema import parse_avro
from headrace.spark.value.decoded import PartlyDecoded
from headrace.spark.value.error import Undecodable


class AvroDecoder:
    """Decodes whole columns with a program compiled from the schema. Fields that the column's type
    leaves out are skipped.

    Args:
        schema: an Avro schema in JSON.
        kind: the type of the column.

    Raises:
        ConfigError: the schema is no Avro schema, or cannot be read into such columns: it lacks a
            field of them, for example.
    """

    def __init__(self, schema: str, kind: pa.DataType) -> None:
        parsed = parse_avro(schema)
        needed = projected(parsed.root, kind)
        try:
            self._reader = AvroColumnReader.between(parsed.root, needed)
        except InvalidArgument as error:
            raise ConfigError(f"option valueSchema: {error}") from error

    def __call__(self, values: pa.Array, kind: pa.DataType) -> pa.Array | PartlyDecoded:
        return as_type(self._reader.read(values), kind)


def as_type(column: ReadColumn, kind: pa.DataType) -> pa.Array | PartlyDecoded:
    """Return what was read, in a column of Spark's type.

    Raises:
        Undecodable: a value does not fit it.
        pa.ArrowNotImplementedError: no value of the schema becomes one of the type.
    """
    try:
        values = column.values.cast(kind)
    except pa.ArrowInvalid as error:  # milliseconds that Spark's microseconds cannot hold
        raise Undecodable(str(error)) from error
    return (
        PartlyDecoded(values, column.bad_rows, column.problem) if len(column.bad_rows) else values
    )
