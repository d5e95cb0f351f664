"""The statements there are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Emit(Enum):
    """How a query over streams answers.

    NOW: over what is there, and then it ends. TABLE: the whole result, again and again. CHANGES:
    what is new or changed. FINAL: what will not change any more, behind the watermark.
    """

    NOW = "now"
    TABLE = "table"
    CHANGES = "changes"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream; `metadata` names a column of the record that it is taken from."""

    name: str
    ddl: str
    metadata: str | None
    start: int


@dataclass(frozen=True, slots=True)
class Option:
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Query:
    """A part of the script that is Spark's."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Statement:
    start: int


@dataclass(frozen=True, slots=True)
class Create(Statement):
    """CREATE STREAM or TABLE; with a query it is filled by that."""

    name: str
    table: bool = False
    columns: tuple[Column, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    query: Query | None = None
    emit: Emit = Emit.CHANGES
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    name: str
    query: Query
    emit: Emit = Emit.CHANGES


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """`limit`: how many rows to answer with, and then end."""

    query: Query
    emit: Emit = Emit.NOW
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW STREAMS, or TABLES, or QUERIES."""

    what: str


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    query: Query
