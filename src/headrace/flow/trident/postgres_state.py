"""A state in a table of PostgreSQL."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.error import FlowError
from headrace.flow.trident.state import Backing, Mode, StateFactory, StateFields
from headrace.flow.trident.table_state import (
    TableBacking,
    checked_table,
    is_text,
    refused_by_tables,
)

_CONNECT_SECONDS = 10
# An entry of a B-tree has at most 2,704 bytes; the rest is for headers, numbers and times.
_MAX_KEY_BYTES = 2_600
_TYPES = (
    (is_text, "TEXT"),
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_floating, "DOUBLE PRECISION"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_timestamp, "TIMESTAMPTZ"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_binary, "BYTEA"),
)


class PostgresState(StateFactory):
    """Keeps values in a table, which is created if it is missing. A task writes a batch in one
    transaction.

    Args:
        url: postgresql://user@host:port/database, with or without `jdbc:` before it.

    Example:
        tags.group_by("tag").persistent_aggregate(PostgresState(url, "hashtags"), n="count")
    """

    def __init__(self, url: str, table: str, *, mode: str | Mode = Mode.OPAQUE) -> None:
        self.url = url.removeprefix("jdbc:")
        if not self.url.startswith(("postgresql://", "postgres://")):
            raise FlowError(f"{url!r} is no address: write postgresql://user@host:5432/database")
        self.table = checked_table(table)
        self.mode = Mode.of(mode)

    def refused(self, column: pa.Array, *, key: bool) -> Iterator[tuple[str, pa.Array]]:
        yield from refused_by_tables(column, key=key)
        if is_text(column.type):
            yield "a text of PostgreSQL cannot have the character NUL", _with_nul(column)

    def refused_keys(self, columns: Sequence[pa.Array]) -> Iterator[tuple[str, pa.Array]]:
        texts = [each for each in columns if _has_any_length(each.type)]
        if not texts:
            return
        lengths = (np.asarray(pc.binary_length(each).fill_null(0)) for each in texts)
        too_long = sum(lengths, np.zeros(len(texts[0]), np.int64)) > _MAX_KEY_BYTES
        yield f"an index of PostgreSQL takes {_MAX_KEY_BYTES} bytes", pa.array(too_long)

    def open(self, state_fields: StateFields, task: int, tasks: int) -> Backing:
        return self._backing(state_fields, lock=" FOR UPDATE")

    def open_for_queries(self, state_fields: StateFields, tasks: int) -> Backing:
        return self._backing(state_fields, lock="")

    def _backing(self, state_fields: StateFields, lock: str) -> Backing:
        connection = self._connect()
        # If two tasks find no table, one of them creates it and the other waits.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self.table])
        return TableBacking(
            connection, self.table, state_fields, mark="%s", types=_TYPES, lock=lock
        )

    def _connect(self) -> Any:
        try:
            import psycopg
        except ImportError as error:
            raise FlowError(
                "a state in PostgreSQL needs psycopg: pip install 'headrace[postgres]'"
            ) from error
        connection = psycopg.connect(self.url, connect_timeout=_CONNECT_SECONDS)
        # In the zone of the session the last hours of the year 9999 may be in the year 10000, which
        # Python does not have. Poolers refuse this as an option of the connection.
        connection.execute("SET TIME ZONE 'UTC'")
        connection.commit()
        return connection


def _has_any_length(kind: pa.DataType) -> bool:
    return bool(is_text(kind) or pa.types.is_binary(kind))


def _with_nul(column: pa.Array) -> pa.Array:
    return pc.match_substring(column, "\0")
