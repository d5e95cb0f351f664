"""A schema as the registry has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import Reference, SchemaText, SchemaType


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its number.

    Attributes:
        id: in its context; what the framing of a value names.
        guid: the same in every context and registry; None from a registry without GUIDs.
        subject, version: None where it was asked for by id alone.
        parsed: with its references resolved.
    """

    id: int
    guid: str | None
    subject: str | None
    version: int | None
    text: SchemaText
    parsed: ParsedSchema

    @property
    def type(self) -> SchemaType:
        return self.text.type


def schema_text(answer: Mapping[str, Any]) -> SchemaText:
    """Return the schema of a registry's answer.

    Raises:
        KeyError, TypeError, ValueError: the answer is none of a registry's.
    """
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in answer.get("references") or ()
    )
    kind = SchemaType(str(answer.get("schemaType") or "AVRO"))
    return SchemaText(kind, str(answer["schema"]), references)
