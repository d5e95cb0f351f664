"""A state in a table with a row per key, for SQLite and PostgreSQL."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.trident.state import Backing, Key, StateEntry, StateFields

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN = ("_txid", "_kept", "_before")
# A statement has at most so many keys, however large the batch.
_KEYS_AT_ONCE = 500


def checked_table(name: str) -> str:
    """Return a table's name, `table` or `schema.table`, in quotes.

    Raises:
        FlowError: it is no name of a table.
    """
    parts = name.split(".")
    if len(parts) > 2 or not all(_NAME.fullmatch(each) for each in parts):
        raise FlowError(f"{name!r} is no name of a table: write letters, digits and underscores")
    return ".".join(f'"{each}"' for each in parts)


class TableBacking(Backing):
    """Stores entries in a table.

    A row has the key's fields, the value's, and three internal columns: the transaction's id, what
    the aggregate keeps, and what it kept before.

    Args:
        mark: the placeholder of a parameter in a statement.
        types: the database's type of each Arrow type.
        lock: the clause by which a SELECT locks its rows.
    """

    def __init__(
        self,
        connection: Any,
        table: str,
        state_fields: StateFields,
        *,
        mark: str,
        types: Any,
        lock: str = "",
    ) -> None:
        self._connection = connection
        self._table = table
        self._mark = mark
        self._keys = [f'"{each}"' for each in state_fields.key.names]
        self._values = [f'"{each}"' for each in state_fields.value.names]
        self._all = [*self._keys, *self._values, *(f'"{each}"' for each in _OWN)]
        self._lock = lock
        self._create(state_fields, types)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            yield
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise

    def multi_get(self, keys: Sequence[Key]) -> list[StateEntry | None]:
        entries: dict[Key, StateEntry] = {}
        columns, names = ", ".join(self._all), ", ".join(self._keys)
        width = len(self._keys)
        one = f"({', '.join([self._mark] * width)})"
        # All writers lock rows in the same order, so that no two wait for each other.
        ordered = sorted(keys, key=str)
        for at in range(0, len(ordered), _KEYS_AT_ONCE):
            part = ordered[at : at + _KEYS_AT_ONCE]
            marks = ", ".join([one] * len(part))
            statement = (
                f"SELECT {columns} FROM {self._table}"  # noqa: S608 - names are checked
                f" WHERE ({names}) IN (VALUES {marks}) ORDER BY {names}{self._lock}"
            )
            cursor = self._connection.execute(statement, [each for key in part for each in key])
            for row in cursor.fetchall():
                txid, kept, before = row[-3:]
                entries[tuple(row[:width])] = StateEntry(txid, kept, before, tuple(row[width:-3]))
        return [entries.get(key) for key in keys]

    def multi_put(self, entries: Iterable[tuple[Key, StateEntry]]) -> None:
        rows = [
            (*key, *each.output, each.txid, each.kept, each.before)
            for key, each in sorted(entries, key=lambda entry: str(entry[0]))
        ]
        if not rows:
            return
        changed = ", ".join(f"{each} = EXCLUDED.{each}" for each in self._all[len(self._keys) :])
        statement = (
            f"INSERT INTO {self._table} ({', '.join(self._all)})"  # noqa: S608 - names are checked
            f" VALUES ({', '.join([self._mark] * len(self._all))})"
            f" ON CONFLICT ({', '.join(self._keys)}) DO UPDATE SET {changed}"
        )
        self._connection.cursor().executemany(statement, rows)

    def close(self) -> None:
        self._connection.close()

    def _create(self, state_fields: StateFields, types: Any) -> None:
        def column(fields: Fields, name: str, rest: str) -> str:
            kind = fields.schema.field(name).type
            sql_type = next((sql for matches, sql in types if matches(kind)), None)
            if sql_type is None:
                raise FlowError(f"a table cannot have the field {name}: it is {kind}")
            return f'"{name}" {sql_type}{rest}'

        columns = [column(state_fields.key, each, " NOT NULL") for each in state_fields.key.names]
        columns += [column(state_fields.value, each, "") for each in state_fields.value.names]
        columns += [f'"{each}" TEXT' for each in _OWN]
        columns.append(f"PRIMARY KEY ({', '.join(self._keys)})")
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({', '.join(columns)})")
        self._connection.commit()


def refused_by_tables(column: pa.Array, *, key: bool) -> Iterator[tuple[str, pa.Array]]:
    """Yield which values no table of this file can keep; see `StateFactory.refused`."""
    if not key:
        return
    if column.null_count:
        yield "a key cannot be null", column.is_null()
    if pa.types.is_floating(column.type):
        # SQLite makes a null of it, and no row of a result equals it.
        yield "a key cannot be NaN", pc.is_nan(column)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind))
