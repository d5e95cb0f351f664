"""The changes of a commit: the last one of each key."""

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.landing.data_file import conform
from headrace.landing.table import Changes

_ROW: Final = "row"


class ChangeSet:
    """Collects changes in the order of the log. It is in memory, so the lander bounds its rows.

    Attributes:
        rows: how many changes were added since the last `take`.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.rows = 0
        self._keys = keys
        self._batches: list[pa.RecordBatch] = []
        self._marks: list[pa.BooleanArray] = []

    def add(self, rows: pa.RecordBatch, deleted: pa.BooleanArray | None) -> None:
        """Add changes. A key is only ever in one partition, so any order of partitions will do."""
        marks = pa.repeat(pa.scalar(False), rows.num_rows) if deleted is None else deleted
        self._batches.append(rows)
        self._marks.append(marks)
        self.rows += rows.num_rows

    def take(self, columns: pa.Schema) -> Changes:
        """Return the last change of each key, and forget all."""
        schema = pa.schema([each.with_nullable(True) for each in columns])
        table = pa.Table.from_batches([conform(each, schema) for each in self._batches], schema)
        marks = pa.chunked_array(self._marks, pa.bool_())
        self._batches, self._marks, self.rows = [], [], 0
        # Names of our own: a column may have any.
        names = [f"key {at}" for at in range(len(self._keys))]
        numbers = pa.chunked_array([np.arange(table.num_rows)])
        numbered = pa.table([*map(table.column, self._keys), numbers], names=[*names, _ROW])
        last = numbered.group_by(names).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
        last = last.combine_chunks().sort()
        table, gone = table.take(last), marks.take(last)
        rows = table.filter(pa.compute.invert(gone))
        return Changes(self._keys, rows, table.filter(gone).select(list(self._keys)))
