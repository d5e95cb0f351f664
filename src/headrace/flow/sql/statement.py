"""The statements of a script."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class EmitMode(Enum):
    """Which rows a query over streams returns, and when.

    NOW: those over the records there are; then it ends. TABLE: the whole result after every batch.
    CHANGES: rows that are new or changed. FINAL: rows behind the watermark, which cannot change.
    """

    NOW = "now"
    TABLE = "table"
    CHANGES = "changes"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class ColumnDeclaration:
    """A column of a stream; `metadata` names the column of the record that it stands for."""

    name: str
    ddl: str
    metadata: str | None
    start: int


@dataclass(frozen=True, slots=True)
class Option:
    """The value of an option in WITH."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """A query of the script, in Spark's SQL."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement; `start` is where it begins in the script."""

    start: int


@dataclass(frozen=True, slots=True)
class CreateStatement(Statement):
    """CREATE STREAM or TABLE; a `query` fills it."""

    name: str
    table: bool = False
    columns: tuple[ColumnDeclaration, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    query: SparkQuery | None = None
    emit: EmitMode = EmitMode.CHANGES
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertStatement(Statement):
    """INSERT INTO: a query that fills a stream."""

    name: str
    query: SparkQuery
    emit: EmitMode = EmitMode.CHANGES


@dataclass(frozen=True, slots=True)
class SelectStatement(Statement):
    """SELECT; it ends after `limit` rows."""

    query: SparkQuery
    emit: EmitMode = EmitMode.NOW
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ShowStatement(Statement):
    """SHOW STREAMS, or TABLES, or QUERIES."""

    what: str


@dataclass(frozen=True, slots=True)
class DescribeStatement(Statement):
    """DESCRIBE a stream."""

    name: str


@dataclass(frozen=True, slots=True)
class DropStatement(Statement):
    """DROP a stream; its topic stays."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ExplainStatement(Statement):
    """EXPLAIN: show Spark's plan of a query."""

    query: SparkQuery
