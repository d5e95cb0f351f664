"""Rows of one topic that wait until they are worth a request."""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headrace.client.write.placement import Columns

# Views point into bytes that other rows share, and dictionaries say little about what they stand
# for: so many rows of them are looked at together.
_OPAQUE_ROWS = 65536


class Accumulator:
    """Small writes, put together. Rows keep the time at which they were written."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self.held_bytes = 0
        self._since = 0.0

    @property
    def age_seconds(self) -> float:
        """How long the oldest row has waited; 0 when none does."""
        return time.monotonic() - self._since if self._tables else 0.0

    def add(self, columns: Columns, enough_bytes: int) -> Iterator[Columns]:
        """Take rows; yields those, and what waited before them, that are enough now."""
        for rows in _plain(columns):
            if self._tables and self._tables[0].schema != _timed(rows.schema):
                yield from self.take()
            if not self._tables and rows.nbytes >= enough_bytes:
                yield rows
            elif rows.num_rows:
                self._keep(rows)
                if self.held_bytes >= enough_bytes:
                    yield from self.take()

    def take(self) -> Iterator[pa.Table]:
        """Everything that waits."""
        tables, self._tables, self.held_bytes = self._tables, [], 0
        if tables:
            yield pa.concat_tables(tables)

    def _keep(self, rows: Columns) -> None:
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        if "timestamp" not in table.schema.names:
            now_ms = time.time_ns() // 1_000_000
            table = table.append_column(
                "timestamp", pa.array(np.full(table.num_rows, now_ms, dtype=np.int64))
            )
        if not self._tables:
            self._since = time.monotonic()
        self._tables.append(table)
        self.held_bytes += table.nbytes


def _timed(schema: pa.Schema) -> pa.Schema:
    if "timestamp" in schema.names:
        return schema
    return schema.append(pa.field("timestamp", pa.int64()))


def _plain(columns: Columns) -> Iterator[Columns]:
    """The same rows in types that say how large they are, and that can be gathered."""
    opaque = [field.name for field in columns.schema if _is_opaque(field.type)]
    if not opaque:
        yield columns
        return
    for start in range(0, columns.num_rows, _OPAQUE_ROWS):
        piece = columns.slice(start, _OPAQUE_ROWS)
        for name in opaque:
            at = piece.schema.get_field_index(name)
            piece = piece.set_column(at, name, piece.column(name).cast(pa.large_binary()))
        yield piece


def _is_opaque(kind: pa.DataType) -> bool:
    return (
        kind in (pa.binary_view(), pa.string_view())
        or pa.types.is_dictionary(kind)
        or pa.types.is_run_end_encoded(kind)
    )
