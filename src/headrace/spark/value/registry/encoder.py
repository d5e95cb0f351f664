"""Encodes a column as values that name their schema."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.error import ConfigError
from headrace.schema.protobuf.parsed import ProtobufSchema
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.error import RegistryError
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.wire_format import id_head, write_indexes
from headrace.spark.value.registry.avro_schema import avro_text
from headrace.spark.value.registry.client import reader_schema, registry_access
from headrace.spark.value.registry.column import payload_writer
from headrace.spark.value.registry.option import RegistryFormat

_MOST_NESTED = 64


@dataclass(frozen=True, slots=True)
class RegistryEncoder:
    """Writes columns by the latest version of a subject, or by a schema that it registers.

    Attributes:
        register: register `schema`, or an Avro schema that follows from the column's type.
        schema: the text of the schema to register.
    """

    options: RegistryFormat
    register: bool = False
    schema: str | None = None

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return the framed values of a column; a null stays null.

        Raises:
            Unencodable: a row does not fit the schema.
            ConfigError: the subject has no schema, or the registry refuses the one of the column.
            RegistryUnreachable: no registry answers.
        """
        options = self.options
        schema = self._schema(values.type)
        access = registry_access(options.registry)
        key = ("write", schema.id, schema.guid, options.message)
        write = access.kept(key, lambda: payload_writer(schema, options.message))
        head = id_head(schema.id)
        if schema.type is SchemaType.PROTOBUF:
            head += write_indexes(_indexes(schema, options.message))
        payloads = write(values)
        return pc.binary_join_element_wise(pa.scalar(head), payloads, pa.scalar(b""))

    def _schema(self, kind: pa.DataType) -> RegisteredSchema:
        options = self.options
        if not self.register:
            return reader_schema(options)
        text = self.schema or avro_text(kind, options.subject)
        serializer = registry_access(options.registry).serializer
        try:
            return serializer.register(options.subject, SchemaText(options.type, text))
        except RegistryError as error:
            raise ConfigError(
                f"the schema registry refuses the schema of these rows for {options.subject}: "
                f"{error}"
            ) from error


def _indexes(schema: RegisteredSchema, message: str | None) -> tuple[int, ...]:
    """Return where a message is in its file."""
    parsed = schema.parsed
    assert isinstance(parsed, ProtobufSchema)
    waiting: list[tuple[int, ...]] = [(0,)]
    while message is not None and waiting:
        indexes = waiting.pop()
        name = parsed.message_name(indexes)
        if name == message:
            return indexes
        if name is not None:
            waiting.append((*indexes[:-1], indexes[-1] + 1))
            if len(indexes) < _MOST_NESTED:
                waiting.append((*indexes, 0))
    return (0,)
