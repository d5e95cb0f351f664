"""Avro's types as a tree.

A named type that is used again is the same object, so a tree may be a graph.
`props` are the attributes that Avro does not define, logical types among them: they are kept and
written back. Full names are kept with their namespace; a name without a dot has none.
"""

from dataclasses import dataclass, field
from typing import Any

Props = dict[str, Any]


class Missing:
    """The default of a field that has none; None is a default too."""


MISSING = Missing()


@dataclass(eq=False, slots=True)
class Primitive:
    """null, boolean, int, long, float, double, bytes or string."""

    kind: str
    props: Props = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Array:
    items: "AvroType"
    props: Props = field(default_factory=dict)

    kind = "array"


@dataclass(eq=False, slots=True)
class Map:
    values: "AvroType"
    props: Props = field(default_factory=dict)

    kind = "map"


@dataclass(eq=False, slots=True)
class Union:
    branches: tuple["AvroType", ...]

    kind = "union"


@dataclass(eq=False, slots=True)
class Field:
    name: str
    type: "AvroType"
    default: Any = MISSING
    doc: str | None = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    props: Props = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING


@dataclass(eq=False, slots=True)
class Named:
    """What records, enums and fixed share. Aliases are full names."""

    name: str
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    props: Props = field(default_factory=dict)

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]


@dataclass(eq=False, slots=True)
class Record(Named):
    fields: tuple[Field, ...] = ()
    is_error: bool = False

    kind = "record"


@dataclass(eq=False, slots=True)
class Enum(Named):
    symbols: tuple[str, ...] = ()
    default: str | None = None

    kind = "enum"


@dataclass(eq=False, slots=True)
class Fixed(Named):
    size: int = 0

    kind = "fixed"


AvroType = Primitive | Array | Map | Union | Record | Enum | Fixed
