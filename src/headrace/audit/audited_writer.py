"""Counting at our own writer: rows count when they were acknowledged."""

import time
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.audit.tally import Tally
from headrace.client.write.row_partitioner import Columns
from headrace.client.write.writer import Writer


class AuditedWriter(Writer):
    """A `Writer` that counts the rows that `flush` and `commit` have confirmed.

    Rows of a transaction that is aborted are not counted, nor are those of `uncounted` topics.

    Example:
        tally = Tally("producer")
        with Reporter(tally, settings), AuditedWriter(tally, settings, "clicks") as writer:
            writer.write(table)
    """

    def __init__(
        self, tally: Tally, *args: Any, uncounted: Collection[str] = (), **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._ignored_topics = frozenset(uncounted)
        self._tally = tally
        self._uncounted: list[tuple[str, npt.NDArray[np.int64]]] = []

    def write(self, columns: Columns, topic: str | None = None) -> None:
        """Write and count rows. Rows without a time get the current one: all tiers must agree."""
        if "timestamp" not in columns.schema.names and columns.num_rows:
            now_ms = time.time_ns() // 1_000_000
            table = columns if isinstance(columns, pa.Table) else pa.table(columns)
            columns = table.append_column(
                "timestamp", pa.array(np.full(table.num_rows, now_ms, dtype=np.int64))
            )
        super().write(columns, topic)
        name = topic or self.topic or ""
        if columns.num_rows and name not in self._ignored_topics:
            times = columns.column(columns.schema.names.index("timestamp")).cast(pa.int64())
            self._uncounted.append((name, times.fill_null(-1).to_numpy()))

    def flush(self) -> None:
        super().flush()
        if self._transaction is None:
            self._count()

    def commit(self) -> None:
        super().commit()
        self._count()

    def abort(self) -> None:
        self._uncounted.clear()
        super().abort()

    def _count(self) -> None:
        counted, self._uncounted = self._uncounted, []
        for topic, times in counted:
            self._tally.count_column(topic, times)
