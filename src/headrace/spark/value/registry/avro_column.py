"""Columns of Avro values: whole columns at once, or row by row where that cannot be."""

import io
import json
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.model.error import InvalidArgument
from headrace.schema.avro.parsed import AvroSchema
from headrace.serde.avro.reader import AvroColumnReader
from headrace.serde.codec.avro_bound import AvroBound
from headrace.serde.codec.avro_size import has_items_without_bytes
from headrace.serde.error import Undecodable, Unencodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.spark.value.avro import as_type
from headrace.spark.value.avro_projection import projected
from headrace.spark.value.decoded import PartlyDecoded
from headrace.spark.value.registry.avro_schema import fast_schema
from headrace.spark.value.registry.head import without_heads
from headrace.spark.value.registry.plain_row import plain_rows


class AvroReader:
    """Reads values of one writer's schema and resolves them to the reader's.

    Whole columns are read by a compiled program, which skips the fields that the column's type
    leaves out. A schema that has none, because one of its types holds itself, or a type that
    becomes another one in Spark, is read row by row.

    Args:
        kind: the type of the columns.
        head_bytes: how many bytes stand before each value and are not read.

    Raises:
        ConfigError: the columns have a field that the reader's schema does not have.
    """

    def __init__(
        self,
        writer: RegisteredSchema,
        reader: RegisteredSchema,
        kind: pa.DataType,
        head_bytes: int = 0,
    ) -> None:
        assert isinstance(writer.parsed, AvroSchema)
        assert isinstance(reader.parsed, AvroSchema)
        self._writer, self._reader = writer, reader
        self._head_bytes = head_bytes
        self._columns: AvroColumnReader | None = None
        self._rows: AvroRowReader | None = None
        needed = projected(reader.parsed.root, kind)
        with suppress(InvalidArgument):
            self._columns = AvroColumnReader.between(writer.parsed.root, needed)

    def __call__(self, payloads: pa.Array, kind: pa.DataType) -> pa.Array | PartlyDecoded:
        if self._columns is not None:
            try:
                return as_type(self._columns.read(payloads, self._head_bytes), kind)
            except pa.ArrowNotImplementedError:
                self._columns = None
        if self._rows is None:
            self._rows = AvroRowReader(self._writer, self._reader)
        return self._rows(without_heads(payloads, self._head_bytes), kind)


class AvroRowReader:
    """Reads values one by one with fastavro.

    A value that would overflow the stack of fastavro, or fill the memory, is a bad value: the
    writer's schema may be recursive where the reader's is not.
    """

    def __init__(self, writer: RegisteredSchema, reader: RegisteredSchema) -> None:
        assert isinstance(writer.parsed, AvroSchema)
        self._is_bomb = has_items_without_bytes(writer.parsed.root)
        self._bound = AvroBound(json.loads(writer.parsed.formatted("resolved")))
        self._writer = fast_schema(writer.parsed)
        same = writer.parsed.canonical == reader.parsed.canonical
        self._reader: Any = None if same else fast_schema(reader.parsed)

    def __call__(self, payloads: pa.Array, kind: pa.DataType) -> pa.Array:
        from fastavro import schemaless_reader

        if self._is_bomb:
            raise Undecodable("its schema has arrays of items without bytes, which are not read")
        found = []
        for payload in payloads.to_pylist():
            self._bound.check(payload)
            source = io.BytesIO(payload)
            try:
                found.append(schemaless_reader(source, self._writer, self._reader))
            except Exception as error:  # bad bytes make its C code raise any exception
                raise Undecodable(f"{type(error).__name__}: {error}") from error
            if source.tell() != len(payload):
                raise Undecodable("bytes follow the Avro value")
        return column_of(found, kind)


class AvroWriter:
    """Writes rows as values of one schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._schema = fast_schema(schema.parsed)
        self._name = schema.subject or f"schema {schema.id}"

    def __call__(self, values: pa.Array) -> pa.Array:
        from fastavro import schemaless_writer

        found: list[bytes | None] = []
        for value in plain_rows(values):
            if value is None:
                found.append(None)
                continue
            target = io.BytesIO()
            try:
                schemaless_writer(target, self._schema, value, strict_allow_default=True)
            except Exception as error:  # values that do not fit make it raise any exception
                raise Unencodable(
                    f"a row does not fit the Avro schema of {self._name}: "
                    f"{type(error).__name__}: {error}"
                ) from error
            found.append(target.getvalue())
        return pa.array(found, pa.binary())


def column_of(rows: list[Any], kind: pa.DataType) -> pa.Array:
    """Return Python objects as a column.

    Raises:
        Undecodable: one does not fit.
    """
    try:
        return pa.array(rows, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
        raise Undecodable(str(error)) from error
