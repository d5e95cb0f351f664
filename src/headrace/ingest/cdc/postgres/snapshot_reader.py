"""Reads the rows of tables in one snapshot, in the order of their keys."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.ingest.cdc.postgres.catalog import PublishedTable
from headrace.ingest.cdc.postgres.handover import COLLATED, is_ordered
from headrace.ingest.cdc.table import Row

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed


class Rows(NamedTuple):
    """Some rows, as bytes of text.

    Attributes:
        last_key: the key of the last one; None for a table whose rows have no order.
    """

    rows: list[Row]
    last_key: tuple[str, ...] | None


class SnapshotReader:
    """Reads tables in a transaction that sees one state of the database.

    Args:
        exported: the snapshot to import; None takes a new one.
    """

    def __init__(self, connection: "psycopg.Connection[Any]", exported: str | None) -> None:
        from psycopg import sql

        self.connection = connection
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if exported is not None:
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported)))

    def read(
        self, table: PublishedTable, after: tuple[str, ...] | None, size: int
    ) -> Iterator[Rows]:
        """Yield the rows after a key, at most `size` at a time."""
        ordered = is_ordered(list(table.facts.key_types))
        names = [each.name for each in table.columns]
        places = [names.index(each) for each in table.facts.key] if ordered else []
        self.connection.execute(_cursor(table, ordered, after))
        try:
            while True:
                # The number is ours: no text of a user is in the statement.
                cursor = self.connection.execute(f"FETCH {size:d} FROM headrace_rows".encode())
                result = cursor.pgresult
                assert result is not None
                rows: list[Row] = [
                    [result.get_value(row, column) for column in range(len(names))]
                    for row in range(result.ntuples)
                ]
                if not rows:
                    return
                yield Rows(rows, _key(rows[-1], places) if ordered else None)
        finally:
            if not self.connection.closed:
                self.connection.execute("CLOSE headrace_rows")

    def close(self) -> None:
        self.connection.close()


def _key(row: Row, places: list[int]) -> tuple[str, ...]:
    return tuple(row[at].decode() for at in places)


def _cursor(table: PublishedTable, ordered: bool, after: tuple[str, ...] | None) -> "Composed":
    from psycopg import sql

    columns = sql.SQL(", ").join(sql.Identifier(each.name) for each in table.columns)
    # The rows of tables that inherit from it are those tables' own.
    only = sql.SQL("ONLY " if table.kind == "r" else "")
    statement = sql.SQL("DECLARE headrace_rows NO SCROLL CURSOR FOR SELECT {} FROM {}{}").format(
        columns, only, sql.Identifier(table.schema, table.name)
    )
    key = [
        sql.SQL('{} COLLATE "C"' if kind in COLLATED else "{}").format(sql.Identifier(name))
        for name, kind in zip(table.facts.key, table.facts.key_types, strict=True)
    ]
    conditions = []
    if table.rows is not None:
        conditions.append(sql.Composed([sql.SQL("("), sql.SQL(table.rows), sql.SQL(")")]))
    if ordered and after is not None:
        conditions.append(
            sql.SQL("({}) > ({})").format(
                sql.SQL(", ").join(key), sql.SQL(", ").join(map(sql.Literal, after))
            )
        )
    if conditions:
        statement += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions)
    if ordered:
        statement += sql.SQL(" ORDER BY ") + sql.SQL(", ").join(key)
    return statement
