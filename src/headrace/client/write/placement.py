"""Which rows of a table go to which partition: all at once, not one by one.

Rule 1: a row's `partition` column decides; where it is null or absent, the row's key does, by the
hash that Kafka's own clients use; a row without a key may go anywhere.
Rule 2: rows that may go anywhere stay together, so that they fill whole batches, and each such run
goes to the next partition that has a leader (KIP-480's sticky partitioner, without its chance).
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


class Placement:
    """The partitions of one topic, and whose turn it is.

    The first turn is anybody's: many writers of a few rows each must not all begin with the same
    partition.
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
        """The partition for the next batch of rows that may go anywhere."""
        self._turn = (self._turn + 1) % len(self.available)
        return self.available[self._turn]

    def split(self, columns: Columns, run_rows: int) -> Iterator[tuple[int | None, Columns]]:
        """The rows of each partition, without their `partition` column.

        Args:
            run_rows: about how many rows without a key fill a batch.

        Yields:
            None instead of a partition when all rows may go anywhere: let each batch take a turn.

        Raises:
            InvalidArgument: a partition that the topic does not have.
        """
        places = self._named(columns)
        columns = without_partition(columns)
        if places is None or (places == kernel.NO_KEY).any():
            places = self._by_key(columns, places)
        if places is None:
            yield None, columns
            return
        self._take_turns(places, run_rows)
        yield from _cut(columns, places, self.count)

    def check(self, columns: Columns) -> None:
        """Refuse columns of which no records can be made, before any row of them is written.

        Raises:
            InvalidArgument: a name, a type, or a partition that cannot be meant.
        """
        plain = without_partition(columns)
        check_names(plain)
        self._named(columns)
        if plain.schema not in self._sound:
            encode(plain.slice(0, 1), timestamp_ms=0)
            self._sound.add(plain.schema)
        # What types do not tell. Rows that are gathered must not fail together with others later.
        headers_input(plain)
        timestamps_input(plain, 0)

    def _named(self, columns: Columns) -> Int32s | None:
        """The `partition` column, with `NO_KEY` for nulls."""
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
        """Fill the places that nobody named; None when there is no key to do it by."""
        keys = bytes_input(columns, "key")
        if not len(keys.index) or columns.column("key").null_count == columns.num_rows:
            return named
        places = np.empty(columns.num_rows, dtype=np.int32)
        bad = kernel.place_keys(keys.index, keys.data, keys.valid, keys.bit, self.count, places)
        if bad != kernel.OK:
            raise InvalidArgument(f"row {bad} has offsets that lie outside its column's data")
        if named is not None:
            np.copyto(places, named, where=named != kernel.NO_KEY)
        return places

    def _take_turns(self, places: Int32s, run_rows: int) -> None:
        anywhere = np.flatnonzero(places == kernel.NO_KEY)
        for start in range(0, len(anywhere), max(1, run_rows)):
            places[anywhere[start : start + max(1, run_rows)]] = self.next()


def without_partition(columns: Columns) -> Columns:
    """What becomes of a record: everything but where it goes."""
    if not isinstance(columns, pa.RecordBatch | pa.Table):
        raise InvalidArgument(
            f"records come as a pyarrow RecordBatch or Table, not as {type(columns).__name__}"
        )
    if PARTITION not in columns.schema.names:
        return columns
    names = [name for name in columns.schema.names if name != PARTITION]
    if names:
        return columns.select(names)
    # A table without columns forgets how many rows it has.
    return pa.table({"value": pa.nulls(columns.num_rows, pa.binary())})


def _cut(columns: Columns, places: Int32s, count: int) -> Iterator[tuple[int, Columns]]:
    sizes = np.bincount(places, minlength=count)
    if len(places) and sizes[places[0]] == len(places):
        yield int(places[0]), columns
        return
    # Sixteen bits are sorted by counting, in time that grows with the rows only.
    narrow: npt.NDArray[np.generic] = places.astype(np.uint16) if count < 2**16 else places
    order = np.argsort(narrow, kind="stable")
    gathered = columns.take(pa.array(order))
    start = 0
    for partition in np.flatnonzero(sizes).tolist():
        size = int(sizes[partition])
        yield partition, gathered.slice(start, size)
        start += size
