"""Records as rows of a table: the seam between a topic's chunks and the formats of values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.read.chunk import Chunk

TIME: Final = pa.timestamp("us", tz="UTC")
"""How tables keep times; the log has milliseconds."""

BadRow = tuple[int, str]
"""The place of a record in its chunk, and why it is no row."""

# The years 1 to 9999: what Python, SQL and the statistics of tables can name.
_RANGES: Final = {
    "s": (-62_135_596_800, 253_402_300_799),
    "day": (-719_162, 2_932_896),
}
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NO_TIME: Final = "its timestamp is beyond what tables hold"


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """What became of a chunk's records.

    Attributes:
        rows: the good ones, in their order.
        deleted: per row of an upsert whether it removes the row of its key; None: none does.
        bad: records that are no rows, in the order of their places.
    """

    rows: pa.RecordBatch
    deleted: pa.BooleanArray | None = None
    bad: Sequence[BadRow] = field(default_factory=tuple)


class RowDecoder(Protocol):
    """Makes rows of records. One thread uses it."""

    @property
    def columns(self) -> pa.Schema | None:
        """The columns of rows so far; None while no record has shown them."""

    def use(self, columns: pa.Schema) -> None:
        """Take the columns of the table, which is there already.

        Raises:
            LandingError: they are not those of the rows.
        """

    def decode(self, chunk: Chunk) -> DecodedRows:
        """Return the rows of a chunk, which has the columns offset, timestamp, key, value and
        headers."""


@dataclass(frozen=True, slots=True)
class TimedRecords:
    """The records of a chunk whose times a table can hold.

    Attributes:
        columns: those of the chunk, `timestamp` in microseconds.
        at: their places in the chunk.
    """

    columns: pa.RecordBatch
    at: npt.NDArray[np.int64]
    bad: list[BadRow]


def times_in_range(times: pa.Array) -> pa.BooleanArray | None:
    """Return which times or dates are of the years 1 to 9999; None if all are, or are null."""
    if pa.types.is_timestamp(times.type):
        factor = _PER_SECOND[times.type.unit]
        low, high = (each * factor for each in _RANGES["s"])
        if factor == _PER_SECOND["ns"]:  # 64 bits hold fewer years than these
            return None
        numbers = times.cast(pa.int64())
    else:
        low, high = _RANGES["day"]
        numbers = times.cast(pa.int32())
    edges = pc.min_max(numbers)
    least, most = edges["min"].as_py(), edges["max"].as_py()
    if least is None or (least >= low and most <= high):
        return None
    fits = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return pc.fill_null(fits, True)


def timed_records(chunk: Chunk) -> TimedRecords:
    """Return the records of a chunk with times as tables have them."""
    columns, bad = chunk.columns, []
    at = np.arange(columns.num_rows)
    good = times_in_range(columns.column("timestamp"))
    if good is not None:
        fits = good.to_numpy(zero_copy_only=False)
        bad = [(int(each), _NO_TIME) for each in at[~fits]]
        at, columns = at[fits], columns.filter(good)
    times = columns.column("timestamp").cast(TIME)
    place = columns.schema.get_field_index("timestamp")
    return TimedRecords(columns.set_column(place, "timestamp", times), at, bad)


def partition_column(chunk: Chunk, rows: int) -> pa.Array:
    """Return a chunk's partition as a column."""
    return pa.repeat(pa.scalar(chunk.partition.partition, pa.int32()), rows)
