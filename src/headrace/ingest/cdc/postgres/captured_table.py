"""A captured table of PostgreSQL: its columns from a Relation message or from the catalog."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from headrace.ingest.cdc.postgres.column_type import ColumnTypes
from headrace.ingest.cdc.postgres.pgoutput import Relation, RelationColumn
from headrace.ingest.cdc.table import Column, ColumnType, Table
from headrace.ingest.cdc.topic_name import topic_of


class TableFacts(NamedTuple):
    """What the catalog knows and the stream does not send.

    Attributes:
        key: the names of the primary key's columns, in its order; with REPLICA IDENTITY USING
            INDEX those of the index, because deletes have no others.
        required: the names of columns that are NOT NULL.
        key_types: the names of the key's types.
        defaults: the names of columns whose default is a constant, and its text.
    """

    key: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    key_types: tuple[str, ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()


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
        defaults = dict(facts.defaults)
        made = [
            self._column(each, each.name not in facts.required, defaults.get(each.name))
            for each in columns
        ]
        topic = topic_of(self._prefix, schema, name)
        table = Table(schema, name, topic, made, [names.index(each) for each in key])
        key_types = list(facts.key_types) if key == facts.key else []
        return CapturedTable(table, key_types, identity)

    def _column(self, column: RelationColumn, nullable: bool, default: str | None) -> Column:
        kind = self._types.find(column.type_id, column.modifier)
        return Column(column.name, kind, nullable, _default_json(kind, default))


def _default_json(kind: ColumnType, default: str | None) -> str | None:
    """Return the JSON text of a default. It is the catalog's of now, and the type that of the
    change: a text that is none of its values is left out."""
    if default is None:
        return None
    with suppress(ValueError, ArithmeticError, LookupError):
        written = kind.to_json(default.encode())
        json.loads(written)
        return written
    return None
