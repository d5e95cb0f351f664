"""A JSON Schema that was read."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from headrace.schema import json_text
from headrace.schema.error import InvalidSchema
from headrace.schema.json_schema import tag
from headrace.schema.json_schema.document import DocumentSet
from headrace.schema.json_schema.draft import draft_of
from headrace.schema.json_schema.loader import SchemaLoader
from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import SchemaText
from headrace.schema.tag import Entity, TagChange


class JsonSchema(ParsedSchema):
    """A document and its tree of schemas."""

    def __init__(self, text: SchemaText, resolved: Mapping[str, str]) -> None:
        super().__init__(text, resolved)
        self._document: Any = json_text.load(text.text)
        if not isinstance(self._document, dict | bool):
            raise InvalidSchema("a JSON Schema must be an object, true or false")
        self.draft = draft_of(self._document)
        self.root = SchemaLoader(DocumentSet(self._document, resolved)).load()

    @property
    def name(self) -> str | None:
        title = self._document.get("title") if isinstance(self._document, dict) else None
        return title if isinstance(title, str) else None

    @cached_property
    def canonical(self) -> str:
        return json_text.dump(self._document)

    @cached_property
    def normalized(self) -> str:
        return json_text.dump(self._document, sort_keys=True)

    def tags(self) -> dict[Entity, tuple[str, ...]]:
        return tag.find_tags(self._document)

    def with_tags(self, change: TagChange) -> str:
        document = json_text.load(self.text.text)  # its own: this one stays as it is
        tag.change_tags(document, change)
        return json_text.dump(document)
