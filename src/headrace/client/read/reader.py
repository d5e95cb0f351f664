"""Topics as Arrow columns: the bulk reader.

Rule 1: a position moves only over records that the reader has returned. A program that stores
`Chunk.next_offset` together with its result of the chunk processes every record once.
Rule 2: one thread reads chunks. Another one fetches ahead (`Prefetch`), and stops while
`max_bytes_in_flight` are held.
"""

import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from queue import Empty
from types import MappingProxyType, TracebackType
from typing import Final, NamedTuple, TypedDict, Unpack
from uuid import UUID

import pyarrow as pa

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.chunk import Chunk, ChunkDecoder
from headrace.client.read.cursor import FetchedRange
from headrace.client.read.leader_search import check_topic
from headrace.client.read.prefetch import Prefetch
from headrace.client.read.read_range import Bound, LogEdge, ReadRange
from headrace.client.read.resolved_range import ResolvedRange, resolve_ranges
from headrace.client.settings import ClientSettings
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.records.column import BINARY_SCHEMA
from headrace.records.decode import Layout
from headrace.wire.error_code import ErrorCode

COLUMNS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""The columns of a chunk by default; `headrace.records.column` describes each of them."""

BATCH_ROWS: Final = 100_000
BYTES_IN_FLIGHT: Final = 32 * 1024 * 1024
_ANY_TOPIC: Final[Mapping[str, UUID]] = MappingProxyType({})


class LostRange(NamedTuple):
    """Offsets that were to be read and are gone: from `start` to before `end`."""

    partition: TopicPartition
    start: int
    end: int


class ReaderOptions(TypedDict, total=False):
    """The options of `Reader`, for functions that pass them on."""

    read_committed: bool
    follow: bool
    batch_rows: int
    columns: Sequence[str]
    views: bool
    max_bytes_in_flight: int
    reset: LogEdge | None
    topic_ids: Mapping[str, UUID]
    expect_one_fetch: bool


class Reader:
    """Reads ranges of partitions as Arrow record batches, from Headrace or from Apache Kafka.

    When a leader moves, a broker restarts or a connection breaks, the reader finds the new leader
    and reconnects. No record is lost or read twice by that.

    Args:
        settings: `bootstrap.servers` and the other keys of `headrace.client.settings`.
        ranges: what to read of each partition. Offsets are used as they are; edges and times are
            looked up when the reader is opened.
        read_committed: leave out records of aborted transactions and of open ones.
        follow: keep reading new records where a range has no end. Otherwise such a range ends where
            the log ends when the reader is opened.
        batch_rows: the most rows of a chunk. A chunk holds what one fetch returned of one
            partition, which `max.partition.fetch.bytes` limits.
        columns: the names of the columns, in this order. Columns that are left out cost nothing.
        views: return `key` and `value` as `binary_view` columns that point into the fetched bytes,
            without a copy. Each chunk then keeps all the bytes of its fetch.
        max_bytes_in_flight: how many bytes may be requested or wait to be decoded, in total. A
            single batch that is larger is read all the same.
        reset: where to continue when a position lies outside the log (retention, or a truncated
            topic): `LogEdge.EARLIEST` or `LogEdge.LATEST`. The offsets in between are in `lost`.
        topic_ids: of topics whose offsets were stored. A later topic of the same name is not read,
            but raises a `BrokerError` (`unknown_topic_id`): stored offsets mean nothing in it.
        expect_one_fetch: for ranges so short that one fetch has them. The first call of `poll`
            sends it; the thread that fetches ahead starts only if more is left. That call may take
            as long as a request beyond its time limit.

    Attributes:
        resolved_ranges: the offsets that the ranges were resolved to.
        lost: the offsets that were skipped because of `reset`.

    Example, of a topic with two partitions of three records each:

    >>> settings = {"bootstrap.servers": address}
    >>> clicks = TopicPartition("clicks", 0)
    >>> with Reader(settings, {clicks: ReadRange()}, columns=["offset", "value"]) as reader:
    ...     for chunk in reader:
    ...         print(chunk.partition, chunk.next_offset, chunk.columns.to_pydict())
    clicks-0 3 {'offset': [0, 1, 2], 'value': [b'one', b'two', b'three']}

    Without the first of them:

    >>> with Reader(settings, {clicks: ReadRange(start=1, end=LogEdge.LATEST)}) as reader:
    ...     reader.read_all()["value"].to_pylist()
    [b'two', b'three']

    Raises:
        ClientError: no broker can be reached, or it refuses the read.
        InvalidArgument, ConfigError: a wrong argument or setting.
        PositionOutOfRange, DamagedBatch: from `poll` and while iterating.
    """

    def __init__(
        self,
        settings: ClientSettings | Mapping[str, str],
        ranges: Mapping[TopicPartition, ReadRange],
        *,
        read_committed: bool = False,
        follow: bool = False,
        batch_rows: int = BATCH_ROWS,
        columns: Sequence[str] = COLUMNS,
        views: bool = False,
        max_bytes_in_flight: int = BYTES_IN_FLIGHT,
        reset: LogEdge | None = None,
        topic_ids: Mapping[str, UUID] = _ANY_TOPIC,
        expect_one_fetch: bool = False,
    ) -> None:
        _check_arguments(ranges, batch_rows, columns, max_bytes_in_flight)
        self.lost: list[LostRange] = []
        self._settings = settings = _client_settings(settings)
        self._follow = follow
        self._read_committed = read_committed
        self._topic_ids = topic_ids
        self.resolved_ranges = self._resolve(ranges)
        self._positions = {each: extent.start for each, extent in self.resolved_ranges.items()}
        self._prefetch = Prefetch(
            settings,
            self.resolved_ranges,
            limit_bytes=max_bytes_in_flight,
            read_committed=read_committed,
            reset=reset,
            topic_ids=topic_ids,
            expect_one_fetch=expect_one_fetch,
        )
        layout: Layout = "view" if views else "binary"
        self._decoder = ChunkDecoder(columns, layout, batch_rows, self._prefetch.release)
        self._chunks: Iterator[Chunk] = iter(())
        self._range: FetchedRange | None = None
        self._started = False
        self._closed = False
        # A reader that is garbage collected stops too: its thread holds the prefetch, not the
        # reader.
        weakref.finalize(self, self._prefetch.close)
        self._error: ClientError | None = None

    @classmethod
    def of_topics(
        cls,
        settings: ClientSettings | Mapping[str, str],
        *topics: str,
        start: Bound = LogEdge.EARLIEST,
        end: Bound | None = None,
        **options: Unpack[ReaderOptions],
    ) -> "Reader":
        """Read all partitions of some topics.

        Args:
            start, end: as in `ReadRange`; the same for each partition.
            options: the options of `Reader`.

        >>> with Reader.of_topics({"bootstrap.servers": address}, "clicks") as reader:
        ...     sum(chunk.columns.num_rows for chunk in reader)
        6

        Raises:
            BrokerError: there is no such topic.
        """
        settings = _client_settings(settings)
        ranges = dict.fromkeys(_partitions(settings, topics), ReadRange(start, end))
        return cls(settings, ranges, **options)

    def add(self, ranges: Mapping[TopicPartition, ReadRange]) -> None:
        """Read more partitions, such as new ones of a topic. Only the polling thread may call it.

        Raises:
            InvalidArgument: a partition is read already, or the reader has ended.
        """
        for partition in ranges:
            if partition in self.resolved_ranges:
                raise InvalidArgument(f"{partition} is read already")
        resolved = self._resolve(ranges)
        if self._closed or not self._prefetch.add(resolved):
            raise InvalidArgument("the reader has ended: make another one")
        self.resolved_ranges |= resolved
        self._positions |= {each: extent.start for each, extent in resolved.items()}

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset per partition: all records before it were returned, or do not exist."""
        return dict(self._positions)

    def poll(self, timeout_seconds: float | None = None) -> Chunk | None:
        """Return the next chunk, or None when none came in time or the reader has `ended`.

        Args:
            timeout_seconds: how long to wait for a chunk; without a limit by default.

        Raises:
            ClientError: as described at `Reader`. Every later call raises it again.
        """
        if self._error is not None:
            raise self._error
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        try:
            while not self._closed:
                chunk = self._next_chunk()
                if chunk is not None:
                    self._positions[chunk.partition] = chunk.next_offset
                    return chunk
                self._finish_range()
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not self._next_range(left):
                    return None
        except ClientError as error:
            self._error = error
            self.close()
            raise
        return None

    @property
    def bytes_in_flight(self) -> int:
        """How many bytes are requested, or received and not decoded."""
        return self._prefetch.held_bytes

    @property
    def ended(self) -> bool:
        """Whether every range was read to its end, or the reader was closed."""
        return self._closed

    def __iter__(self) -> Iterator[Chunk]:
        """Iterate over chunks until every range is read, or another thread closes the reader."""
        while (chunk := self.poll()) is not None:
            yield chunk

    def read_all(self) -> pa.Table:
        """Return all remaining records in one table in memory: for small ranges."""
        return pa.Table.from_batches([chunk.columns for chunk in self], self._decoder.schema)

    def close(self) -> None:
        """Stop fetching. Another thread may call it to end a `poll` that waits."""
        self._closed = True
        self._prefetch.close()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _resolve(
        self, ranges: Mapping[TopicPartition, ReadRange]
    ) -> dict[TopicPartition, ResolvedRange]:
        with ConnectionPool(self._settings) as pool:
            found = resolve_ranges(
                pool, ranges, follow=self._follow, read_committed=self._read_committed
            )
            if self._topic_ids:
                metadata = pool.known_metadata(ranges.keys())
                for partition in ranges:
                    topic = partition.topic
                    check_topic(partition, self._topic_ids.get(topic), metadata.topic_id(topic))
        return found

    def _next_chunk(self) -> Chunk | None:
        try:
            return next(self._chunks, None)
        except ClientError:
            raise
        except BaseException:
            # The rest of the range is gone, and the next range must not look like its continuation.
            self._error = ClientError(
                "the reader was interrupted in the middle of a chunk: "
                "make another one that starts at its positions"
            )
            self.close()
            raise

    def _next_range(self, timeout_seconds: float | None) -> bool:
        if not self._started:
            self._started = True
            self._prefetch.start()
        try:
            fetched = self._prefetch.get(timeout_seconds)
        except Empty:
            return False
        if fetched is None:
            self.close()
            return False
        self._range = fetched
        self._chunks = self._decoder.chunks(fetched)
        return True

    def _finish_range(self) -> None:
        """Move to the end of the fetched range, also if its last records are not shown."""
        if self._range is not None:
            partition, offset = self._range.partition, self._range.offset
            self._positions[partition] = self._range.next_offset
            if self._range.lost:
                self.lost.append(LostRange(partition, offset, self._range.next_offset))
            self._range = None


def _client_settings(settings: ClientSettings | Mapping[str, str]) -> ClientSettings:
    return settings if isinstance(settings, ClientSettings) else ClientSettings.of(settings)


def _check_arguments(
    ranges: Mapping[TopicPartition, ReadRange],
    batch_rows: int,
    columns: Sequence[str],
    max_bytes_in_flight: int,
) -> None:
    if isinstance(columns, str) or not columns:
        raise InvalidArgument(f"columns is a list of names, such as {list(COLUMNS)}")
    for name in columns:
        if name not in BINARY_SCHEMA.names:
            raise InvalidArgument(
                f"there is no column {name!r}: there are {', '.join(BINARY_SCHEMA.names)}"
            )
    if batch_rows < 1:
        raise InvalidArgument(f"batch_rows is {batch_rows}: a chunk has at least one row")
    if max_bytes_in_flight < 1:
        raise InvalidArgument(f"max_bytes_in_flight is {max_bytes_in_flight}: give at least 1")
    if not ranges:
        raise InvalidArgument("there is no partition to read: ranges is empty")


def _partitions(settings: ClientSettings, topics: Sequence[str]) -> list[TopicPartition]:
    with ConnectionPool(settings) as pool:
        metadata = pool.metadata(topics)
    partitions = []
    for name in topics:
        topic = metadata.topics.get(name)
        if topic is None or topic.error is not None:
            code = ErrorCode.unknown_topic_or_partition
            error = BrokerError(code) if topic is None or topic.error is None else topic.error
            raise BrokerError(error.code, f"cannot read {name}: {error}")
        partitions += [topic.partition(index) for index in topic.partitions]
    return partitions
