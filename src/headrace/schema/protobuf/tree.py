"""A .proto file as a tree, with names as they are written in it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

MAX_NUMBER: Final = 536_870_911
MAX_ENUM_NUMBER: Final = 2_147_483_647

# Integers and kinds of bytes by the group within which a reader may change the type: the bytes on
# the wire are read alike. An enum is read as an integer.
SCALAR_GROUPS: Final = {
    "int32": "number",
    "int64": "number",
    "uint32": "number",
    "uint64": "number",
    "bool": "number",
    "sint32": "zigzag number",
    "sint64": "zigzag number",
    "fixed32": "fixed 32 bits",
    "sfixed32": "fixed 32 bits",
    "fixed64": "fixed 64 bits",
    "sfixed64": "fixed 64 bits",
    "float": "float",
    "double": "double",
    "string": "string or bytes",
    "bytes": "string or bytes",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted option value."""

    value: str


@dataclass(frozen=True, slots=True)
class Word:
    """An option value without quotes: a number, true, an enum's constant."""

    value: str


@dataclass(frozen=True, slots=True)
class Block:
    """An option value in braces."""

    entries: tuple[tuple[str, "Value"], ...]


@dataclass(frozen=True, slots=True)
class Values:
    """An option value in brackets."""

    items: tuple["Value", ...]


Value = Text | Word | Block | Values


@dataclass(frozen=True, slots=True)
class Option:
    """`name` as it is written, with the parentheses of an extension."""

    name: str
    value: Value


Options = list[Option]
# A reserved name, number or range (both ends included).
Reserved = str | tuple[int, int]


@dataclass(eq=False, slots=True)
class Field:
    """`type` is empty for a map, which has `key` and `value`."""

    name: str
    number: int
    type: str = ""
    label: str | None = None
    key: str = ""
    value: str = ""
    options: Options = field(default_factory=list)
    is_group: bool = False

    @property
    def is_map(self) -> bool:
        return bool(self.key)


@dataclass(eq=False, slots=True)
class OneOf:
    name: str
    fields: list[Field] = field(default_factory=list)
    options: Options = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Constant:
    name: str
    number: int
    options: Options = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Enum:
    name: str
    constants: list[Constant] = field(default_factory=list)
    options: Options = field(default_factory=list)
    reserved: list[list[Reserved]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Extend:
    """Fields that are added to a message of another place."""

    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Message:
    """`types` are the messages and enums inside, in order; those of groups are among them."""

    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    types: list["Message | Enum"] = field(default_factory=list)
    options: Options = field(default_factory=list)
    reserved: list[list[Reserved]] = field(default_factory=list)
    extensions: list[list[tuple[int, int]]] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    is_group: bool = False
    is_map_entry: bool = False

    def all_fields(self) -> Iterator[Field]:
        """Yield the fields, those of oneofs included."""
        yield from self.fields
        for oneof in self.oneofs:
            yield from oneof.fields


@dataclass(eq=False, slots=True)
class Rpc:
    name: str
    request: str
    response: str
    streams_request: bool = False
    streams_response: bool = False
    options: Options = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Service:
    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: Options = field(default_factory=list)


@dataclass(eq=False, slots=True)
class ProtoFile:
    """`syntax` is proto2, proto3 or an edition's year; None where nothing is said (proto2)."""

    syntax: str | None = None
    package: str = ""
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    options: Options = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)

    @property
    def is_edition(self) -> bool:
        return self.syntax is not None and not self.syntax.startswith("proto")
