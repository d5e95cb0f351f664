"""Partitions of a table by the hour or day of a column: `hour(timestamp)`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.error import InvalidArgument

_UNITS: Final = {
    "hour": (timedelta(hours=1), "%Y-%m-%d-%H"),
    "day": (timedelta(days=1), "%Y-%m-%d"),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TimePartition:
    """A table's partitions: one per hour or day of UTC in a column of times.

    The number of a partition counts hours or days since 1970, as Iceberg's transforms do.

    >>> TimePartition.parse("hour(timestamp)").text(1)
    '1970-01-01-01'
    """

    unit: str
    column: str

    @classmethod
    def parse(cls, text: str) -> "TimePartition":
        """Return the partitions of a text such as `hour(timestamp)`.

        Raises:
            InvalidArgument: the text is none.
        """
        found = re.fullmatch(r"\s*(hour|day)\(\s*([^()]+?)\s*\)\s*", text)
        if found is None:
            raise InvalidArgument(
                f"a table cannot be partitioned by {text!r}: write hour(COLUMN) or day(COLUMN)"
            )
        return cls(found[1], found[2])

    def __str__(self) -> str:
        return f"{self.unit}({self.column})"

    @property
    def name(self) -> str:
        """The column or partition field that has the hour or day."""
        return f"{self.column}_{self.unit}"

    def check(self, schema: pa.Schema) -> None:
        """Check that the column is there and has times.

        Raises:
            InvalidArgument: it is not, or has none.
        """
        times = [each.name for each in schema if pa.types.is_timestamp(each.type)]
        if self.column not in times:
            raise InvalidArgument(
                f"--partition-by {self}: {self.column} is no column of times; there are "
                f"{', '.join(times) or 'none'}"
            )

    def text(self, number: int | None) -> str | None:
        """Return the name of a partition, for the column of a Delta table."""
        if number is None:
            return None
        length, layout = _UNITS[self.unit]
        return (_EPOCH + number * length).strftime(layout)

    def texts(self, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the names of the partitions of times."""
        return pc.strftime(times.cast(pa.timestamp("s", "UTC"), safe=False), _UNITS[self.unit][1])

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """Yield the rows of each partition, in their order. Most often that is one."""
        times = rows.column(self.column).cast(pa.timestamp("us", "UTC"), safe=False)
        micros = times.cast(pa.int64())
        length = _UNITS[self.unit][0] // _MICROSECOND
        edges = pc.min_max(micros)
        low, high = edges["min"].as_py(), edges["max"].as_py()
        if low is None or (micros.null_count == 0 and low // length == high // length):
            yield (None if low is None else low // length), rows
            return
        if micros.null_count:
            missing = micros.is_null()
            yield None, rows.filter(missing)
            rows, micros = rows.filter(pc.invert(missing)), micros.drop_null()
        # Rounded down, also before 1970. One sort finds all partitions, however many there are.
        numbers = micros.to_numpy() // length
        order = np.argsort(numbers, kind="stable")
        edges_at = np.flatnonzero(np.diff(numbers[order])) + 1
        for places in np.split(order, edges_at):
            # A copy: rows that wait for their file must not keep the whole chunk in memory.
            yield int(numbers[places[0]]), rows.take(pa.array(places))
