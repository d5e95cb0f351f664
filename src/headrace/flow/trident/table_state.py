"""What SQLite and PostgreSQL have in common: a table with a row for each key."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.trident.state import Backing, Entry, Key, Shape

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN = ("_txid", "_kept", "_before")
# No statement grows past this many keys, whatever a batch has.
_KEYS_AT_ONCE = 500


def checked_table(name: str) -> str:
    """A table's name, `table` or `schema.table`, in quotes.

    Raises:
        FlowError: it is none.
    """
    parts = name.split(".")
    if len(parts) > 2 or not all(_NAME.fullmatch(each) for each in parts):
        raise FlowError(f"{name!r} is no name of a table: write letters, digits and underscores")
    return ".".join(f'"{each}"' for each in parts)


class TableBacking(Backing):
    """A row has the key's fields, the value's, and three columns of its own: the transaction's id,
    what the aggregate keeps, and what it kept before.

    Args:
        mark: how a statement names its parameters.
        types: the database's type of each Arrow type.
        lock: what makes a SELECT keep others from its rows.
    """

    def __init__(
        self, connection: Any, table: str, shape: Shape, *, mark: str, types: Any, lock: str = ""
    ) -> None:
        self._connection = connection
        self._table = table
        self._mark = mark
        self._keys = [f'"{each}"' for each in shape.key.names]
        self._values = [f'"{each}"' for each in shape.value.names]
        self._all = [*self._keys, *self._values, *(f'"{each}"' for each in _OWN)]
        self._lock = lock
        self._create(shape, types)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            yield
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise

    def multi_get(self, keys: Sequence[Key]) -> list[Entry | None]:
        found: dict[Key, Entry] = {}
        columns, names = ", ".join(self._all), ", ".join(self._keys)
        width = len(self._keys)
        one = f"({', '.join([self._mark] * width)})"
        # In one order for everybody, so that two writers cannot wait for each other.
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
                found[tuple(row[:width])] = Entry(txid, kept, before, tuple(row[width:-3]))
        return [found.get(key) for key in keys]

    def multi_put(self, entries: Iterable[tuple[Key, Entry]]) -> None:
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

    def _create(self, shape: Shape, types: Any) -> None:
        def column(fields: Fields, name: str, rest: str) -> str:
            kind = fields.schema.field(name).type
            written = next((sql for test, sql in types if test(kind)), None)
            if written is None:
                raise FlowError(f"a table cannot have the field {name}: it is {kind}")
            return f'"{name}" {written}{rest}'

        columns = [column(shape.key, each, " NOT NULL") for each in shape.key.names]
        columns += [column(shape.value, each, "") for each in shape.value.names]
        columns += [f'"{each}" TEXT' for each in _OWN]
        columns.append(f"PRIMARY KEY ({', '.join(self._keys)})")
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({', '.join(columns)})")
        self._connection.commit()


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind))
