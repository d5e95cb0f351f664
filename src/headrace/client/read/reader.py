"""Topics as Arrow columns: the bulk reader.

Rule 1: a position is moved over what was handed out and nothing else. Whoever keeps
`Chunk.next_offset` together with what came of the chunk reads every record once.
Rule 2: one thread takes chunks. Another one fetches ahead (`Prefetch`), and stops when
`max_bytes_in_flight` are held.
"""

import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from queue import Empty
from types import TracebackType
from typing import Final, NamedTuple, TypedDict, Unpack

import pyarrow as pa

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.chunk import Chunk, ChunkDecoder
from headrace.client.read.cursor import FetchedRange
from headrace.client.read.prefetch import Prefetch
from headrace.client.read.read_range import Bound, Offset, ReadRange
from headrace.client.read.resolved_range import ResolvedRange, resolve_ranges
from headrace.client.settings import ClientSettings
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.records.column import BINARY_SCHEMA
from headrace.records.decode import Layout
from headrace.wire.error_code import ErrorCode

COLUMNS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""What a chunk has unless told otherwise; `headrace.records.column` says what each of them is."""

BATCH_ROWS: Final = 100_000
BYTES_IN_FLIGHT: Final = 32 * 1024 * 1024


class Lost(NamedTuple):
    """Offsets that were to be read and are gone: from `start` up to, and without, `end`."""

    partition: TopicPartition
    start: int
    end: int


class ReaderOptions(TypedDict, total=False):
    """What `Reader` can be told, for those who hand it on."""

    read_committed: bool
    follow: bool
    batch_rows: int
    columns: Sequence[str]
    views: bool
    max_bytes_in_flight: int
    reset: Offset | None


class Reader:
    """Reads ranges of partitions as Arrow record batches, from Headrace or from Apache Kafka.

    Leaders that move, brokers that restart and connections that break are followed, mended and
    made again; no record is lost or doubled by it.

    Args:
        settings: `bootstrap.servers` and whatever else `headrace.client.settings` has.
        ranges: what to read of which partition. Offsets are taken as they are; edges and times are
            looked up when the reader is made.
        read_committed: leave out aborted transactions, and what open ones wrote.
        follow: go on for ever where a range has no end. Else such a range ends where the log ends
            when the reader is made.
        batch_rows: how many rows a chunk has at most. It has what one fetch gave of one partition:
            `max.partition.fetch.bytes` sets that.
        columns: the names of the columns wanted, in their order. What is left out costs nothing.
        views: let `key` and `value` be `binary_view` columns that point into the fetched bytes,
            without a copy. Each chunk then keeps all the bytes of its fetch.
        max_bytes_in_flight: how many bytes may be asked for and waiting to be decoded, together.
            A single batch may be larger and arrives all the same.
        reset: where to go on when a range begins, or gets, outside the log (retention, or a topic
            that was cut): `Offset.EARLIEST` or `Offset.LATEST`. What was passed over is in `lost`.

    Attributes:
        extents: the offsets that the ranges turned out to be.
        lost: what was to be read and is gone, with `reset`.

    Example, of a topic with two partitions of three records each:

    >>> settings = {"bootstrap.servers": address}
    >>> clicks = TopicPartition("clicks", 0)
    >>> with Reader(settings, {clicks: ReadRange()}, columns=["offset", "value"]) as reader:
    ...     for chunk in reader:
    ...         print(chunk.partition, chunk.next_offset, chunk.columns.to_pydict())
    clicks-0 3 {'offset': [0, 1, 2], 'value': [b'one', b'two', b'three']}

    Without the first of them:

    >>> with Reader(settings, {clicks: ReadRange(start=1, end=Offset.LATEST)}) as reader:
    ...     reader.read_all()["value"].to_pylist()
    [b'two', b'three']

    Raises:
        ClientError: no broker is there, or it does not let us read.
        InvalidArgument, ConfigError: what was asked for cannot be meant.
        PositionOutOfRange, DamagedBatch: from `poll` and while iterating, when it comes to that.
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
        reset: Offset | None = None,
    ) -> None:
        _check(ranges, batch_rows, columns, max_bytes_in_flight)
        self.lost: list[Lost] = []
        self._settings = settings = _typed(settings)
        self._follow = follow
        self._read_committed = read_committed
        self.extents = _look_up(settings, ranges, follow, read_committed)
        self._positions = {each: extent.start for each, extent in self.extents.items()}
        self._prefetch = Prefetch(
            settings,
            self.extents,
            limit_bytes=max_bytes_in_flight,
            read_committed=read_committed,
            reset=reset,
        )
        layout: Layout = "view" if views else "binary"
        self._decoder = ChunkDecoder(columns, layout, batch_rows, self._prefetch.give_back)
        self._chunks: Iterator[Chunk] = iter(())
        self._piece: FetchedRange | None = None
        self._started = False
        self._closed = False
        # A reader that is forgotten stops as well: its thread holds the prefetch, not the reader.
        weakref.finalize(self, self._prefetch.close)
        self._error: ClientError | None = None

    @classmethod
    def of_topics(
        cls,
        settings: ClientSettings | Mapping[str, str],
        *topics: str,
        start: Bound = Offset.EARLIEST,
        end: Bound | None = None,
        **options: Unpack[ReaderOptions],
    ) -> "Reader":
        """Read all partitions of some topics.

        Args:
            start, end: as in `ReadRange`; the same for each partition.
            options: as `Reader` takes them.

        >>> with Reader.of_topics({"bootstrap.servers": address}, "clicks") as reader:
        ...     sum(chunk.columns.num_rows for chunk in reader)
        6

        Raises:
            BrokerError: there is no such topic.
        """
        settings = _typed(settings)
        wanted = ReadRange(start, end)
        ranges = dict.fromkeys(_partitions(settings, topics), wanted)
        return cls(settings, ranges, **options)

    def add(self, ranges: Mapping[TopicPartition, ReadRange]) -> None:
        """Read more partitions, such as those that a topic got since. For the thread that polls.

        Raises:
            InvalidArgument: one of them is read already, or the reader has ended.
        """
        for partition in ranges:
            if partition in self.extents:
                raise InvalidArgument(f"{partition} is read already")
        found = _look_up(self._settings, ranges, self._follow, self._read_committed)
        if self._closed or not self._prefetch.add(found):
            raise InvalidArgument("the reader has ended: make another one")
        self.extents |= found
        self._positions |= {each: extent.start for each, extent in found.items()}

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where to read on: everything before it was handed out, or will never be there."""
        return dict(self._positions)

    def poll(self, timeout_seconds: float | None = None) -> Chunk | None:
        """The next chunk, or None: there is none yet, or there will be none (`ended`).

        Args:
            timeout_seconds: how long to wait for it; as long as it takes by default.

        Raises:
            ClientError: what `Reader` says. It is raised again by every later call.
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
                self._finish_piece()
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not self._next_piece(left):
                    return None
        except ClientError as error:
            self._error = error
            self.close()
            raise
        return None

    @property
    def bytes_in_flight(self) -> int:
        """How many bytes are asked for, or have come and are not decoded."""
        return self._prefetch.held_bytes

    @property
    def ended(self) -> bool:
        """Every range was read to its end, or the reader was closed."""
        return self._closed

    def __iter__(self) -> Iterator[Chunk]:
        """Chunks until every range is at its end, or until another thread closes the reader."""
        while (chunk := self.poll()) is not None:
            yield chunk

    def read_all(self) -> pa.Table:
        """All that is left, in memory at once: for ranges that are known to be small."""
        return pa.Table.from_batches([chunk.columns for chunk in self], self._decoder.schema)

    def close(self) -> None:
        """Stop fetching. From another thread, it ends a `poll` that waits."""
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

    def _next_chunk(self) -> Chunk | None:
        try:
            return next(self._chunks, None)
        except ClientError:
            raise
        except BaseException:
            # What is left of the piece is gone. Nobody may take the next piece for what follows.
            self._error = ClientError(
                "the reader was interrupted in the middle of a chunk: "
                "make another one that starts at its positions"
            )
            self.close()
            raise

    def _next_piece(self, timeout_seconds: float | None) -> bool:
        if not self._started:
            self._started = True
            self._prefetch.start()
        try:
            piece = self._prefetch.get(timeout_seconds)
        except Empty:
            return False
        if piece is None:
            self.close()
            return False
        self._piece = piece
        self._chunks = self._decoder.chunks(piece)
        return True

    def _finish_piece(self) -> None:
        """Where it ended is known also when its last records were none to be shown."""
        if self._piece is not None:
            partition, offset = self._piece.partition, self._piece.offset
            self._positions[partition] = self._piece.next_offset
            if self._piece.lost:
                self.lost.append(Lost(partition, offset, self._piece.next_offset))
            self._piece = None


def _typed(settings: ClientSettings | Mapping[str, str]) -> ClientSettings:
    return settings if isinstance(settings, ClientSettings) else ClientSettings.of(settings)


def _check(
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


def _look_up(
    settings: ClientSettings,
    ranges: Mapping[TopicPartition, ReadRange],
    follow: bool,
    read_committed: bool,
) -> dict[TopicPartition, ResolvedRange]:
    with ConnectionPool(settings) as pool:
        return resolve_ranges(pool, ranges, follow=follow, read_committed=read_committed)


def _partitions(settings: ClientSettings, topics: Sequence[str]) -> list[TopicPartition]:
    with ConnectionPool(settings) as pool:
        metadata = pool.metadata(topics)
    found = []
    for name in topics:
        topic = metadata.topics.get(name)
        if topic is None or topic.error is not None:
            code = ErrorCode.unknown_topic_or_partition
            error = BrokerError(code) if topic is None or topic.error is None else topic.error
            raise BrokerError(error.code, f"cannot read {name}: {error}")
        found += [topic.partition(index) for index in topic.partitions]
    return found
