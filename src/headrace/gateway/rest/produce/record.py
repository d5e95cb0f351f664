"""A record between a request and the log."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, overload

_OVERHEAD_BYTES: Final = 32
_HEADER_BYTES: Final = 16
# Makes a NamedTuple in half the time its own constructor takes.
_new: Final = tuple.__new__


class Record(NamedTuple):
    """What one record of a request becomes.

    Attributes:
        partition: None to let the key, or the proxy, choose.
        timestamp_ms: None for the time of arrival.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None

    @property
    def size_bytes(self) -> int:
        """About what it takes in a batch, and not less."""
        size = len(self.key or b"") + len(self.value or b"") + _OVERHEAD_BYTES
        for name, value in self.headers:
            size += 4 * len(name) + len(value or b"") + _HEADER_BYTES
        return size


class Measure(NamedTuple):
    """What several records take.

    Attributes:
        size_bytes: the sum of `Record.size_bytes`.
        is_plain: whether none has a header or a time of its own.
    """

    size_bytes: int
    is_plain: bool


def measure(records: Sequence[Record]) -> Measure:
    """Return what records take."""
    size = _OVERHEAD_BYTES * len(records)
    is_plain = True
    for key, value, headers, timestamp_ms, _ in records:
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        if headers or timestamp_ms is not None:
            is_plain = False
            for name, content in headers:
                size += 4 * len(name) + len(content or b"") + _HEADER_BYTES
    return Measure(size, is_plain)


class Placed(NamedTuple):
    """Where a record was written."""

    partition: int
    offset: int
    timestamp_ms: int


class PlacedRun(Sequence[Placed]):
    """Where records were written that follow each other in one partition.

    Most requests have one of these: a `Placed` for each record is made only where one is asked for.

    Args:
        offset: of the first.
    """

    __slots__ = ("_count", "offset", "partition", "timestamp_ms")

    def __init__(self, partition: int, offset: int, count: int, timestamp_ms: int) -> None:
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self._count = count

    def __len__(self) -> int:
        return self._count

    @property
    def offsets(self) -> range:
        """The offsets, in the order of the records."""
        return range(self.offset, self.offset + self._count)

    def __iter__(self) -> Iterator[Placed]:
        partition, timestamp_ms = self.partition, self.timestamp_ms
        return iter([_new(Placed, (partition, at, timestamp_ms)) for at in self.offsets])

    @overload
    def __getitem__(self, index: int) -> Placed: ...

    @overload
    def __getitem__(self, index: slice) -> list[Placed]: ...

    def __getitem__(self, index: int | slice) -> Placed | list[Placed]:
        if isinstance(index, slice):
            return [Placed(self.partition, at, self.timestamp_ms) for at in self.offsets[index]]
        return Placed(self.partition, self.offsets[index], self.timestamp_ms)
