"""The seam between whole columns of records and the formats: one reader or writer per schema."""

from typing import Protocol

import pyarrow as pa
from pyspark.sql.types import DataType

from headrace.schema.schema import SchemaType
from headrace.serde.registered_schema import RegisteredSchema
from headrace.spark.value.decoded import PartlyDecoded


class PayloadReader(Protocol):
    """Reads payloads, none of which is null, into a column of the same length."""

    def __call__(self, payloads: pa.Array, kind: pa.DataType) -> pa.Array | PartlyDecoded:
        """Return the column.

        Raises:
            Undecodable: at least one payload is not of the schema.
        """


class PayloadWriter(Protocol):
    """Writes the rows of a column as payloads without framing; a null stays null."""

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return the payloads.

        Raises:
            Unencodable: a row does not fit the schema.
        """


def payload_reader(
    writer: RegisteredSchema,
    reader: RegisteredSchema,
    kind: pa.DataType,
    message: str | None = None,
    *,
    head_bytes: int = 0,
) -> PayloadReader:
    """Return what reads the values of one writer's schema, resolved to the reader's, into columns
    of a type, which may leave out fields of it.

    Args:
        head_bytes: how many bytes stand before each value; only Avro's reader passes them over.

    Raises:
        ConfigError: the columns have a field that the reader's Avro schema does not have.
    """
    match reader.type:
        case SchemaType.AVRO:
            from headrace.spark.value.registry.avro_column import AvroReader

            return AvroReader(writer, reader, kind, head_bytes)
        case SchemaType.PROTOBUF:
            from headrace.spark.value.registry.protobuf_column import ProtobufReader

            return ProtobufReader(reader, message)
        case SchemaType.JSON:
            from headrace.spark.value.registry.json_column import JsonReader

            return JsonReader(reader)


def payload_writer(schema: RegisteredSchema, message: str | None = None) -> PayloadWriter:
    """Return what writes values of a schema."""
    match schema.type:
        case SchemaType.AVRO:
            from headrace.spark.value.registry.avro_column import AvroWriter

            return AvroWriter(schema)
        case SchemaType.PROTOBUF:
            from headrace.spark.value.registry.protobuf_column import ProtobufWriter

            return ProtobufWriter(schema, message)
        case SchemaType.JSON:
            from headrace.spark.value.registry.json_column import JsonWriter

            return JsonWriter(schema)


def spark_type(schema: RegisteredSchema, message: str | None = None) -> DataType:
    """Return the type of a column with values of a schema.

    Raises:
        ConfigError: the schema has a type that no column has.
    """
    match schema.type:
        case SchemaType.AVRO:
            from headrace.spark.value.registry.avro_schema import avro_type

            return avro_type(schema.parsed)
        case SchemaType.PROTOBUF:
            from headrace.spark.value.registry.protobuf_schema import message_class, protobuf_type

            return protobuf_type(message_class(schema, message).DESCRIPTOR)
        case SchemaType.JSON:
            from headrace.spark.value.registry.json_schema import json_shape

            return json_shape(schema.parsed).type
