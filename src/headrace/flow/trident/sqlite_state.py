"""A state in an SQLite file, for jobs whose tasks all run on one machine."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.storage.location import Location, is_cluster
from headrace.flow.trident.state import Backing, Mode, StateFactory, StateFields
from headrace.flow.trident.table_state import (
    TableBacking,
    checked_table,
    is_text,
    refused_by_tables,
)

_BUSY_SECONDS = 60.0
_INSTEAD = "use PostgresState or TopicState, which every machine reaches"
_TYPES = (
    (is_text, "TEXT"),
    (pa.types.is_integer, "INTEGER"),
    (pa.types.is_floating, "REAL"),
    (pa.types.is_boolean, "INTEGER"),
    (pa.types.is_binary, "BLOB"),
)


class SqliteState(StateFactory):
    """Keeps values in a table of a file; both are created if they are missing.

    Example:
        words.group_by("word").persistent_aggregate(SqliteState("counts.db", "words"), n="count")
    """

    def __init__(self, path: str | Path, table: str, *, mode: str | Mode = Mode.OPAQUE) -> None:
        local = Location.of(path).local_path
        if local is None:
            raise FlowError(f"SQLite cannot keep {path}: {_INSTEAD}")
        self.path = str(local)
        self.table = checked_table(table)
        self.mode = Mode.of(mode)

    def check_master(self, master: str) -> None:
        if is_cluster(master):
            raise FlowError(
                f"SqliteState keeps {self.path} on one machine, and the tasks of {master} run on"
                f" several: {_INSTEAD}"
            )

    def refused(self, column: pa.Array, *, key: bool) -> Iterator[tuple[str, pa.Array]]:
        return refused_by_tables(column, key=key)

    def open(self, state_fields: StateFields, task: int, tasks: int) -> Backing:
        return self._backing(state_fields, _Sqlite)

    def open_for_queries(self, state_fields: StateFields, tasks: int) -> Backing:
        return self._backing(state_fields, _ReadOnly)

    def _backing(self, state_fields: StateFields, kind: "type[_Sqlite]") -> Backing:
        # `transaction` begins them itself: a writer must wait for others before it reads.
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        return kind(connection, self.table, state_fields, mark="?", types=_TYPES)


class _Sqlite(TableBacking):
    _begin = "BEGIN IMMEDIATE"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.execute(self._begin)
        with super().transaction():
            yield


class _ReadOnly(_Sqlite):
    """Waits for no writer."""

    _begin = "BEGIN"
