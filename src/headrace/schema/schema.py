"""A schema as its writer hands it in: type, text, references."""

from dataclasses import dataclass
from enum import StrEnum


class SchemaType(StrEnum):
    """The three formats, by the names that the registry's `schemaType` has."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that this one uses, and the name by which its text calls it.

    The name is a full record name in Avro, a URI in JSON Schema, an import's path in Protobuf.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema's text with its references.

    `reserved` are the field names of the metadata property `confluent:reserved`: a later version
    may neither drop one from the list nor use one as a field.
    """

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    reserved: frozenset[str] = frozenset()
