"""A JSON Schema as a tree, one class per kind of schema.

A schema object may be of several kinds at once: `{"type": "string", "enum": ["a"]}` is a string
and an enum. It is then a Combined of all of them, as in the library that Confluent's registry
stands on, and verdicts on it are those users of that registry know.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

Criterion = Literal["allOf", "anyOf", "oneOf"]


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    """What every schema has. Nodes are compared by identity.

    `source` is the JSON object that the node was read from; None where it is a part of one.
    """

    has_default: bool = False
    source: Any = None


@dataclass(eq=False, slots=True, kw_only=True)
class Anything(Node):
    """`{}` or true."""


@dataclass(eq=False, slots=True, kw_only=True)
class Nothing(Node):
    """false."""


@dataclass(eq=False, slots=True, kw_only=True)
class Null(Node):
    """A null."""


@dataclass(eq=False, slots=True, kw_only=True)
class Boolean(Node):
    """true or false as a value."""


@dataclass(eq=False, slots=True, kw_only=True)
class String(Node):
    min_length: float | None = None
    max_length: float | None = None
    pattern: str | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Number(Node):
    is_integer: bool = False
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None
    multiple_of: float | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Enumeration(Node):
    """The values as canonical JSON texts, so that 1 and true stay apart."""

    values: frozenset[str]


@dataclass(eq=False, slots=True, kw_only=True)
class Constant(Node):
    value: str


@dataclass(eq=False, slots=True, kw_only=True)
class Not(Node):
    inner: Node


@dataclass(eq=False, slots=True, kw_only=True)
class Conditional(Node):
    """if, then and else. They are not compared."""


@dataclass(eq=False, slots=True, kw_only=True)
class Combined(Node):
    criterion: Criterion
    branches: tuple[Node, ...]


@dataclass(eq=False, slots=True, kw_only=True)
class Array(Node):
    """`additional` and `unevaluated` are Anything where the keyword is missing or true."""

    items: Node | None = None
    prefix: tuple[Node, ...] = ()
    additional: Node
    unevaluated: Node
    min_items: float | None = None
    max_items: float | None = None
    min_contains: float | None = None
    max_contains: float | None = None
    is_unique: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class Object(Node):
    """`additional` and `unevaluated` are Anything where the keyword is missing or true."""

    properties: dict[str, Node] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    patterns: dict[str, Node] = field(default_factory=dict)
    additional: Node
    unevaluated: Node
    dependent_required: dict[str, frozenset[str]] = field(default_factory=dict)
    dependent_schemas: dict[str, Node] = field(default_factory=dict)
    min_properties: float | None = None
    max_properties: float | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Ref(Node):
    """A place that another schema stands in for; the loader sets `target`."""

    text: str
    target: Node | None = None


def followed(node: Node) -> Node:
    """Return the schema behind references."""
    while isinstance(node, Ref):
        assert node.target is not None
        node = node.target
    return node


def weight(node: Node) -> int:
    """Return how many members a schema has, which are all looked at when it is compared."""
    match node:
        case Enumeration():
            return len(node.values)
        case Combined():
            return len(node.branches)
        case Array():
            return len(node.prefix)
        case Object():
            needed = sum(map(len, node.dependent_required.values()))
            schemas = len(node.properties) + len(node.dependent_schemas)
            return schemas + len(node.required) + len(node.dependent_required) + needed
    return 0


# A JSON Schema as json.loads returns it.
Document = dict[str, Any] | bool
