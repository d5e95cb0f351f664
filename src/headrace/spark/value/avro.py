"""Decodes Avro values: each is one datum of the given schema, without a file header."""

import io

import pyarrow as pa

from headrace.spark.value.avro_schema import parse_avro
from headrace.spark.value.error import Undecodable


class AvroDecoder:
    """Decodes with fastavro, which makes a Python object per value: the slowest format."""

    def __init__(self, schema: str) -> None:
        self._schema = parse_avro(schema)

    def __call__(self, values: pa.Array, kind: pa.DataType) -> pa.Array:
        from fastavro import schemaless_reader

        found = []
        for value in values.to_pylist():
            source = io.BytesIO(value)
            try:
                found.append(schemaless_reader(source, self._schema, None))
            except Exception as error:  # bad bytes make its C code raise any exception
                raise Undecodable(f"{type(error).__name__}: {error}") from error
            if source.tell() != len(value):
                raise Undecodable("bytes follow the datum")
        try:
            return pa.array(found, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise Undecodable(str(error)) from error
