"""The verdict on two Avro schemas: their types, and the fields that metadata reserves."""

from collections.abc import Iterator

from headrace.schema.avro.compatibility import AvroComparison
from headrace.schema.avro.parsed import AvroSchema
from headrace.schema.avro.tree import Record
from headrace.schema.incompatibility import Incompatibility, Roles
from headrace.schema.limit import WorkLimit
from headrace.schema.reserved import reserved_reasons


def avro_reasons(
    reader: AvroSchema, writer: AvroSchema, roles: Roles, limit: WorkLimit
) -> Iterator[Incompatibility]:
    """Yield why the reader cannot read what the writer writes."""
    fields = [each.name for each in reader.root.fields] if isinstance(reader.root, Record) else []
    yield from reserved_reasons("FIELD", reader.reserved, writer.reserved, fields, "/fields", roles)
    yield from AvroComparison(roles, limit).compare(reader.root, writer.root)
