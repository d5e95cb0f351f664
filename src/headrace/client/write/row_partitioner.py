"""Assigns the rows of a table to partitions, a whole column at a time.

Rule 1: a row's `partition` column decides; where it is null or absent, the row's key does, by the
hash that Kafka's own clients use; a row without a key may go anywhere.
Rule 2: rows that may go anywhere stay together, so that they fill whole batches, and each such run
goes to the next partition that has a leader (KIP-480's sticky partitioner, in turn instead of at
random).
Rule 3: rows of one partition keep their order.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.error import InvalidArgument
from headrace.records.encode import encode
from headrace.records.input import bytes_input, check_names, headers_input, timestamps_input
from headrace.records.kernel import murmur2 as kernel
from headrace.records.kernel.memory import Int32s

PARTITION: Final = "partition"
Columns: TypeAlias = "pa.Table | pa.RecordBatch"


class RowPartitioner:
    """The partitions of one topic, and which of them gets the next rows without a key.

    The first of them is chosen at random: many writers of a few rows each must not all begin with
    the same partition.
    """

    def __init__(
        self, topic: str, count: int, available: Sequence[int], since: float = 0.0
    ) -> None:
        self.topic = topic
        self.count = count
        self.since = since
        self.available = list(available) or list(range(count))
        self._turn = random.randrange(len(self.available))
        self._sound: set[pa.Schema] = set()

    def next(self) -> int:
        """Return the partition for the next batch of rows that may go anywhere."""
        self._turn = (self._turn + 1) % len(self.available)
        return self.available[self._turn]

    def split(self, columns: Columns, run_rows: int) -> Iterator[tuple[int | None, Columns]]:
        """Yield the rows of each partition, without their `partition` column.

        Args:
            run_rows: about how many rows without a key fill a batch.

        Yields:
            None instead of a partition when all rows may go anywhere: call `next` per batch.

        Raises:
            InvalidArgument: a partition that the topic does not have.
        """
        assigned = self._named(columns)
        columns = without_partition(columns)
        if assigned is None or (assigned == kernel.NO_KEY).any():
            assigned = self._by_key(columns, assigned)
        if assigned is None:
            yield None, columns
            return
        self._take_turns(assigned, run_rows)
        yield from _cut(columns, assigned, self.count)

    def goes_anywhere(self, columns: Columns) -> bool:
        """Return whether no row of these can have a key or name a partition."""
        names = columns.schema.names
        return PARTITION not in names and "key" not in names

    def check(self, columns: Columns) -> None:
        """Refuse columns that cannot become records, before any row of them is written.

        Raises:
            InvalidArgument: an unknown name, a wrong type, or a partition that does not exist.
        """
        plain = without_partition(columns)
        check_names(plain)
        self._named(columns)
        if plain.schema not in self._sound:
            encode(plain.slice(0, 1), timestamp_ms=0)
            self._sound.add(plain.schema)
        # Check the values too: rows that wait in the accumulator must not make others fail later.
        headers_input(plain)
        timestamps_input(plain, 0)

    def _named(self, columns: Columns) -> Int32s | None:
        """Return the `partition` column, with `NO_KEY` for nulls."""
        if PARTITION not in columns.schema.names:
            return None
        column = columns.column(PARTITION)
        if pa.types.is_null(column.type):
            return None
        if not pa.types.is_integer(column.type):
            raise InvalidArgument(f"the partition column is {column.type}: it takes integers")
        if column.null_count == len(column):
            return None
        bounds = pc.min_max(column)
        for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
            if not 0 <= bound < self.count:
                raise InvalidArgument(
                    f"topic {self.topic} has partitions 0 to {self.count - 1}, and no {bound}"
                )
        if column.null_count:
            column = pc.fill_null(column.cast(pa.int32()), kernel.NO_KEY)
        return np.array(column.cast(pa.int32()).to_numpy(), dtype=np.int32)

    def _by_key(self, columns: Columns, named: Int32s | None) -> Int32s | None:
        """Fill the partitions that no row names, by key; return `named` if there are no keys."""
        keys = bytes_input(columns, "key")
        if not len(keys.index) or columns.column("key").null_count == columns.num_rows:
            return named
        assigned = np.empty(columns.num_rows, dtype=np.int32)
        bad = kernel.place_keys(keys.index, keys.data, keys.valid, keys.bit, self.count, assigned)
        if bad != kernel.OK:
            raise InvalidArgument(f"row {bad} has offsets that lie outside its column's data")
        if named is not None:
            np.copyto(assigned, named, where=named != kernel.NO_KEY)
        return assigned

    def _take_turns(self, assigned: Int32s, run_rows: int) -> None:
        anywhere = np.flatnonzero(assigned == kernel.NO_KEY)
        for start in range(0, len(anywhere), max(1, run_rows)):
            assigned[anywhere[start : start + max(1, run_rows)]] = self.next()


def without_partition(columns: Columns) -> Columns:
    """Return the columns that become records: all but `partition`."""
    if not isinstance(columns, pa.RecordBatch | pa.Table):
        raise InvalidArgument(
            f"records come as a pyarrow RecordBatch or Table, not as {type(columns).__name__}"
        )
    if PARTITION not in columns.schema.names:
        return columns
    names = [name for name in columns.schema.names if name != PARTITION]
    if names:
        return columns.select(names)
    # A table without columns does not know how many rows it has.
    return pa.table({"value": pa.nulls(columns.num_rows, pa.binary())})


def _cut(columns: Columns, assigned: Int32s, count: int) -> Iterator[tuple[int, Columns]]:
    sizes = np.bincount(assigned, minlength=count)
    if len(assigned) and sizes[assigned[0]] == len(assigned):
        yield int(assigned[0]), columns
        return
    # NumPy sorts 16-bit integers by radix, in time linear in the rows.
    narrow: npt.NDArray[np.generic] = assigned.astype(np.uint16) if count < 2**16 else assigned
    order = np.argsort(narrow, kind="stable")
    ordered = columns.take(pa.array(order))
    start = 0
    for partition in np.flatnonzero(sizes).tolist():
        size = int(sizes[partition])
        yield partition, ordered.slice(start, size)
        start += size
