"""A Protobuf schema that was read."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from headrace.schema.error import InvalidSchema
from headrace.schema.parsed import ParsedSchema
from headrace.schema.protobuf import tag
from headrace.schema.protobuf.scope import Scope
from headrace.schema.protobuf.source import read_source
from headrace.schema.protobuf.text import ProtoWriter
from headrace.schema.protobuf.tree import Message
from headrace.schema.protobuf.validation import check_file
from headrace.schema.schema import SchemaText
from headrace.schema.tag import Entity, TagChange


class ProtobufSchema(ParsedSchema):
    """A file and the types it can name.

    `formatted("serialized")` is the file as a FileDescriptorProto in base64, which clients ask for.
    """

    def __init__(self, text: SchemaText, resolved: Mapping[str, str]) -> None:
        super().__init__(text, resolved)
        self.file = read_source(text.text)
        self.scope = Scope(self.file, resolved)
        check_file(self.file, self.scope)
        if not self.canonical:
            raise InvalidSchema("the schema is empty")

    @property
    def name(self) -> str | None:
        return next((each for each in self._message_names), None)

    def message_name(self, indexes: Sequence[int]) -> str | None:
        """Return the full name of the message that a record's indexes name, None if there is none.

        The first index counts the file's messages, each further one those inside the one before.
        """
        name = self.file.package
        types = self.file.types
        for index in indexes:
            messages = [each for each in types if isinstance(each, Message)]
            if not 0 <= index < len(messages):
                return None
            message = messages[index]
            name = f"{name}.{message.name}" if name else message.name
            types = message.types
        return name or None

    def message_indexes(self, name: str) -> tuple[int, ...] | None:
        """Return the indexes of the message with a full name, None if the file has none.

        The package may be left out.
        """
        package = f"{self.file.package}." if self.file.package else ""
        types = self.file.types
        indexes = []
        for part in name.removeprefix(package).split("."):
            messages = [each for each in types if isinstance(each, Message)]
            index = next((at for at, each in enumerate(messages) if each.name == part), None)
            if index is None:
                return None
            indexes.append(index)
            types = messages[index].types
        return tuple(indexes)

    @cached_property
    def canonical(self) -> str:
        return ProtoWriter().text(self.file)

    @cached_property
    def normalized(self) -> str:
        return ProtoWriter(self.scope.full_name).text(self.file)

    def tags(self) -> dict[Entity, tuple[str, ...]]:
        return tag.find_tags(self.file)

    def with_tags(self, change: TagChange) -> str:
        file = read_source(self.text.text)  # its own: this one stays as it is
        tag.change_tags(file, change)
        return ProtoWriter().text(file)

    def formatted(self, form: str) -> str:
        if form == "serialized":
            # google.protobuf is loaded only when descriptors are asked for.
            from headrace.schema.protobuf.descriptor_writer import serialized

            return serialized(self.file, self.scope)
        return super().formatted(form)

    @property
    def _message_names(self) -> list[str]:
        prefix = f"{self.file.package}." if self.file.package else ""
        return [prefix + each.name for each in self.file.types if isinstance(each, Message)]
