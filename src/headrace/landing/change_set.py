"""The changes of a commit: the last one of each key."""

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.landing.data_file import conform
from headrace.landing.table import Changes

_ROW: Final = "__row"
_DELETED: Final = "__deleted"


class ChangeSet:
    """Collects changes in the order of the log. It is in memory, so the lander bounds its rows.

    Attributes:
        rows: how many changes were added since the last `take`.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.rows = 0
        self._keys = keys
        self._batches: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch, deleted: pa.BooleanArray | None) -> None:
        """Add changes. A key is only ever in one partition, so any order of partitions will do."""
        marks = pa.repeat(pa.scalar(False), rows.num_rows) if deleted is None else deleted
        self._batches.append(rows.append_column(_DELETED, marks))
        self.rows += rows.num_rows

    def take(self, columns: pa.Schema) -> Changes:
        """Return the last change of each key, and forget all."""
        fields = [each.with_nullable(True) for each in columns]
        schema = pa.schema([*fields, pa.field(_DELETED, pa.bool_())])
        batches = [conform(each, schema) for each in self._batches]
        self._batches, self.rows = [], 0
        table = pa.Table.from_batches(batches, schema)
        numbered = table.select(list(self._keys)).append_column(
            _ROW, pa.array(np.arange(table.num_rows))
        )
        last = numbered.group_by(list(self._keys)).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
        table = table.take(last.combine_chunks().sort())
        gone = table.column(_DELETED)
        rows = table.filter(pa.compute.invert(gone)).drop_columns([_DELETED])
        return Changes(self._keys, rows, table.filter(gone).select(list(self._keys)))
