"""A captured table of PostgreSQL: its columns from a Relation message or from the catalog."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from headrace.ingest.cdc.postgres.column_type import ColumnTypes
from headrace.ingest.cdc.postgres.pgoutput import Relation, RelationColumn
from headrace.ingest.cdc.table import Column, ColumnType, Table
from headrace.ingest.cdc.topic_name import topic_of


class ColumnDefault(NamedTuple):
    """A default that a schema can hold: its text, and the type that the text is of."""

    column: str
    text: str
    type_id: int
    modifier: int


class TableFacts(NamedTuple):
    """What the catalog knows and the stream does not send.

    Attributes:
        key: the names of the primary key's columns, in its order; with REPLICA IDENTITY USING
            INDEX those of the index, because deletes have no others.
        required: the names of columns that are NOT NULL.
        key_types: the names of the key's types.
        defaults: those that a schema can hold.
    """

    key: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    key_types: tuple[str, ...] = ()
    defaults: tuple[ColumnDefault, ...] = ()


class CapturedTable(NamedTuple):
    """A table, and what the hand-over needs of it."""

    table: Table
    key_types: list[str]
    identity: str


class TableFactory:
    """Makes captured tables.

    Args:
        look_up: returns the facts of a table: by the id of its relation.
    """

    def __init__(
        self, prefix: str, types: ColumnTypes, look_up: Callable[[int, str], TableFacts]
    ) -> None:
        self._prefix = prefix
        self._types = types
        self._look_up = look_up

    def make(self, relation: Relation) -> CapturedTable:
        """Return the table of a Relation message."""
        identifier = f"{relation.schema}.{relation.name}"
        facts = self._look_up(relation.id, identifier)
        return self.of_columns(
            relation.schema, relation.name, relation.columns, facts, relation.identity
        )

    def of_columns(
        self,
        schema: str,
        name: str,
        columns: Sequence[RelationColumn],
        facts: TableFacts,
        identity: str,
    ) -> CapturedTable:
        """Return a table of these columns."""
        names = [each.name for each in columns]
        key = facts.key if set(facts.key) <= set(names) else ()
        identified = tuple(each.name for each in columns if each.identity)
        if identity in "di" and identified and set(key) != set(identified):
            # The table or its key is another now in the catalog, or gone: its replica identity is
            # the key it had.
            key = identified
        defaults = {each.column: each for each in facts.defaults}
        made = [
            self._column(each, each.name not in facts.required, defaults.get(each.name))
            for each in columns
        ]
        topic = topic_of(self._prefix, schema, name)
        table = Table(schema, name, topic, made, [names.index(each) for each in key])
        key_types = list(facts.key_types) if key == facts.key else []
        return CapturedTable(table, key_types, identity)

    def _column(
        self, column: RelationColumn, nullable: bool, default: ColumnDefault | None
    ) -> Column:
        kind = self._types.find(column.type_id, column.modifier)
        if default is not None and default[2:] != (column.type_id, column.modifier):
            default = None  # the catalog's of now, of another type than the change has
        if kind.schema["type"] == "struct":
            default = None  # Connect has no defaults of structs
        return Column(column.name, kind, nullable, default and _default_json(kind, default.text))


def _default_json(kind: ColumnType, text: str) -> str | None:
    """Return the JSON text of a default; None if it has none, as NaN of a numeric column, or if the
    text is none of the type's values."""
    with suppress(ValueError, ArithmeticError, LookupError):
        written = kind.to_json(text.encode())
        return None if json.loads(written) is None else written
    return None
