"""A schema that was read and found good."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from headrace.schema.error import InvalidSchema
from headrace.schema.schema import Reference, SchemaText, SchemaType
from headrace.schema.tag import Entity, TagChange


class ParsedSchema(ABC):
    """A schema with its references resolved. Immutable; one class per format implements it.

    Attributes:
        resolved: the texts of all references, and of theirs, by name.
    """

    def __init__(self, text: SchemaText, resolved: Mapping[str, str]) -> None:
        self.text = text
        self.resolved = resolved

    @property
    def type(self) -> SchemaType:
        return self.text.type

    @property
    def references(self) -> tuple[Reference, ...]:
        """Return the references as they were handed in."""
        return self.text.references

    @property
    def normalized_references(self) -> tuple[Reference, ...]:
        """Return the references sorted by name, each once, as a normalised schema keeps them."""
        return tuple(sorted(set(self.references), key=lambda each: (each.name, each.subject)))

    @property
    def reserved(self) -> frozenset[str]:
        return self.text.reserved

    @property
    @abstractmethod
    def name(self) -> str | None:
        """Return the full name of the record or first message, or a JSON Schema's title."""

    @property
    @abstractmethod
    def canonical(self) -> str:
        """Return the text that is stored and compared: equal texts are the same schema."""

    @property
    @abstractmethod
    def normalized(self) -> str:
        """Return the text stored with `normalize=true`: differences without meaning are gone."""

    @abstractmethod
    def tags(self) -> dict[Entity, tuple[str, ...]]:
        """Return which records and fields have tags."""

    @abstractmethod
    def with_tags(self, change: TagChange) -> str:
        """Return the canonical text with tags added and removed.

        Raises:
            InvalidSchema: the schema has no such record or field.
        """

    def formatted(self, form: str) -> str:
        """Return the text in the form that `?format=` names; an empty form is the canonical text.

        Raises:
            InvalidSchema: this type has no such form.
        """
        if form:
            raise InvalidSchema(f"{self.type.value} has no format {form!r}; leave `format` out")
        return self.canonical
