"""Rows of one topic that wait until they fill a request."""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headrace.client.write.row_partitioner import Columns

# The size of views and dictionaries is unknown before they are converted: views point into bytes
# that other rows share. So many rows are converted at a time.
_OPAQUE_ROWS = 65536


class Accumulator:
    """Collects small writes. Rows keep the time at which they were written."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self.held_bytes = 0
        self._since = 0.0

    @property
    def age_seconds(self) -> float:
        """How long the oldest row has waited; 0 when there is none."""
        return time.monotonic() - self._since if self._tables else 0.0

    def add(self, columns: Columns, enough_bytes: int) -> Iterator[Columns]:
        """Add rows; yield the rows that are ready to send, with those that waited before them."""
        for rows in _plain(columns):
            if self._tables and self._tables[0].schema != _timed(rows.schema):
                yield from self.drain()
            if not self._tables and rows.nbytes >= enough_bytes:
                yield rows
            elif rows.num_rows:
                self._keep(rows)
                if self.held_bytes >= enough_bytes:
                    yield from self.drain()

    def drain(self) -> Iterator[pa.Table]:
        """Yield all rows that wait, as one table."""
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
    """Yield the same rows in types whose size is known and that can be concatenated."""
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
