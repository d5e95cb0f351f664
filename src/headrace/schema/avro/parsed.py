"""An Avro schema that was read."""

from collections.abc import Mapping
from functools import cached_property

from headrace.schema.avro import tag
from headrace.schema.avro.parser import AvroParser
from headrace.schema.avro.text import AvroWriter
from headrace.schema.avro.tree import Named
from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import SchemaText
from headrace.schema.tag import Entity, TagChange


class AvroSchema(ParsedSchema):
    """A tree of Avro's types. `resolved` as text has the types of its references inside."""

    def __init__(self, text: SchemaText, resolved: Mapping[str, str]) -> None:
        super().__init__(text, resolved)
        parser = AvroParser(resolved)
        self.root = parser.parse(text.text)
        self._referenced = frozenset(parser.referenced)

    @property
    def name(self) -> str | None:
        return self.root.name if isinstance(self.root, Named) else None

    @cached_property
    def canonical(self) -> str:
        return AvroWriter(self._referenced).text(self.root)

    @cached_property
    def normalized(self) -> str:
        return AvroWriter(self._referenced, normal=True).text(self.root)

    def tags(self) -> dict[Entity, tuple[str, ...]]:
        return tag.find_tags(self.root)

    def with_tags(self, change: TagChange) -> str:
        return tag.change_tags(self.canonical, change)

    def formatted(self, form: str) -> str:
        return AvroWriter().text(self.root) if form == "resolved" else super().formatted(form)
