"""Finding batches of a log by offset and by time."""

from collections.abc import Callable
from typing import TypeVar

from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.log.partition.log_slice import LogSlice
from headrace.log.partition.log_state import LogState, Tip
from headrace.log.partition.timestamp_search import (
    FoundRecord,
    newest_timestamp,
    search_timestamp,
)
from headrace.log.producer.producer_replay import replay_producers
from headrace.log.producer.producer_state import ProducerState
from headrace.log.segment.index_rebuild import rebuild_if_broken
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor
from headrace.log.storage import Storage
from headrace.model.error import CorruptIndex, OffsetOutOfRange, StorageError
from headrace.model.offset import Offset

_Answer = TypeVar("_Answer")

# A read that meets a segment that is leaving the log retries; it cannot meet many in a row.
_READ_TRIES = 5

# Builds a NamedTuple in half the time its own constructor needs.
_new = tuple.__new__


class LogReader:
    """Finds batches by offset and by time.

    A segment can leave the log while a reader looks into it. Then its file is gone from under its
    name, and the reader starts over with the new list of segments.

    Threads: any; no read waits for a lock, unless an error ends it.
    """

    __slots__ = ("_log",)

    def __init__(self, log: LogState) -> None:
        self._log = log

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        max_offset: int | None = None,
        at_least_one: bool = True,
    ) -> LogSlice:
        """Return a slice that starts at the batch holding `offset` and ends before `max_offset`.

        It lies in one segment, and at `offset == max_offset` it is empty.

        Args:
            max_bytes: the slice is not larger. It may end in the middle of a batch, as a Fetch
                response may, but not within its first one: then the slice is empty.
            max_offset: exclusive: the high watermark (when not given), the last stable offset, or
                the log end for a follower. A batch that reaches to it is left out whole.
            at_least_one: a first batch larger than `max_bytes` is returned whole.

        Raises:
            OffsetOutOfRange: `offset` is below the log start or past the log end.
        """
        bound = self._log.high_watermark if max_offset is None else max_offset
        if self._log.storage.failure is None:
            try:
                return self._read(offset, max_bytes, bound, at_least_one)
            except (OSError, CorruptIndex):
                pass
        return self._read_again(offset, max_bytes, bound, at_least_one)

    def _read_again(self, offset: int, max_bytes: int, bound: int, at_least_one: bool) -> LogSlice:
        """Read with retries: apart from `read`, which a closure in it would slow down."""
        return self.retrying(lambda: self._read(offset, max_bytes, bound, at_least_one))

    def _read(self, offset: int, max_bytes: int, bound: int, at_least_one: bool) -> LogSlice:
        log = self._log
        tip = log.tip
        if not log.log_start <= offset <= tip.end_offset:
            raise OffsetOutOfRange(
                f"{log.partition} holds offsets {log.log_start} to {tip.end_offset}, "
                f"and {offset} was asked for"
            )
        if bound > tip.end_offset:
            bound = tip.end_offset
        if offset >= bound:
            return _new(LogSlice, (None, 0, 0, offset, bound))
        if offset >= tip.segment.base_offset:
            piece = self._slice(tip.segment, tip, offset, max_bytes, bound, at_least_one)
            return piece or LogSlice(None, 0, 0, Offset(offset), Offset(bound))
        segments = log.segments.all
        for number in range(floor(segments, offset), len(segments)):
            last = number + 1 == len(segments)
            end = tip.end_offset if last else segments[number + 1].base_offset
            piece = self._slice(
                segments[number], tip, offset, max_bytes, min(bound, end), at_least_one
            )
            if piece is not None:
                return piece
            # Compaction may leave nothing between here and the next segment.
            if end >= bound:
                break
        return LogSlice(None, 0, 0, Offset(offset), Offset(bound))

    def _slice(
        self,
        segment: Segment,
        tip: Tip,
        offset: int,
        max_bytes: int,
        bound: int,
        at_least_one: bool,
    ) -> LogSlice | None:
        """Return the slice of one segment; None when it holds nothing at or behind `offset`."""
        first = segment.find(offset)
        size_bytes = tip.size_bytes if segment is tip.segment else segment.size_bytes
        if first is None or first.position >= size_bytes:
            return None
        end = size_bytes
        if bound < segment.end_offset:
            stop = segment.find(bound)
            if stop is not None and stop.position < end:
                end = stop.position
        size = end - first.position
        if size > max_bytes:
            size = max_bytes
            if size < first.size_bytes:
                size = first.size_bytes if at_least_one else 0
        if size <= 0:
            return LogSlice(None, 0, 0, Offset(first.base_offset), Offset(bound))
        return _new(LogSlice, (segment.file(), first.position, size, first.base_offset, bound))

    def is_recent(self, offset: int) -> bool:
        """Return whether `read` finds this offset among the newest batches, which are known without
        a look at an index or at the heads of batches: neither may be in memory."""
        return self._log.tip.segment.is_recent(offset)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, max_offset: int | None = None
    ) -> FoundRecord:
        """Find the first record at or after a time, below `max_offset` or the high watermark."""
        bound = self._log.high_watermark if max_offset is None else max_offset
        return self.retrying(
            lambda: search_timestamp(
                self._log.segments.all, timestamp_ms, start=self._log.log_start, end=bound
            )
        )

    def offset_of_max_timestamp(self) -> FoundRecord:
        """Find the first of the records with the newest timestamp (ListOffsets, KIP-734)."""

        def search() -> FoundRecord:
            segments = self._log.segments.all
            newest = newest_timestamp(segments, self._log.log_start)
            return search_timestamp(
                segments, newest, start=self._log.log_start, end=self._log.tip.end_offset
            )

        if self._log.log_start == self._log.tip.end_offset:
            return FoundRecord()
        return self.retrying(search)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransactionEntry]:
        """List the aborted transactions that touch start..end, as FetchResponse does.

        They are in the order of their first offsets.
        """

        def collect() -> list[AbortedTransactionEntry]:
            aborted: list[AbortedTransactionEntry] = []
            segments = self._log.segments.all
            for segment in segments[floor(segments, start) :]:
                collected = segment.transaction_index.collect(start, end)
                if segment.retired:
                    raise FileNotFoundError(f"{segment.path.name} left the log")
                aborted.extend(collected.aborted)
                if collected.complete:
                    break
            return sorted(aborted, key=lambda transaction: transaction.first_offset)

        return self.retrying(collect)

    def aborted_in(self, start: int, piece: LogSlice) -> list[AbortedTransactionEntry]:
        """List the aborted transactions that a reader of `piece` from `start` on must know.

        A slice may end far below the offset it was bounded by, and a segment can hold tens of
        thousands of aborted transactions: only those up to its last batch are listed, and of one
        index interval more.
        """
        if not piece.size:
            return []

        def bound() -> int:
            segments = self._log.segments.all
            segment = segments[floor(segments, piece.first_offset)]
            if segment.file() is not piece.file:
                # Compaction was faster: a position in one file says nothing of another.
                return piece.end_offset
            return min(piece.end_offset, segment.bound_at(piece.position + piece.size))

        return self.aborted_transactions(start, self.retrying(bound))

    def retrying(self, look: Callable[[], _Answer]) -> _Answer:
        """Call `look`, and again when a segment left the log while it was being read.

        A cold index that turns out to be corrupt is rebuilt before the next attempt. An error while
        the log moved to another directory may be that of the former one.
        """
        self._log.storage.check_online()
        for attempt in range(_READ_TRIES):
            storage = self._log.storage
            try:
                return look()
            except FileNotFoundError as error:
                self._log.check_open()
                if attempt == _READ_TRIES - 1:
                    raise self._unreadable(error) from error
            except CorruptIndex as error:
                self._log.check_open()
                if attempt == _READ_TRIES - 1:
                    raise self._unreadable(error) from error
                self._rebuild_broken_indexes()
            except OSError as error:
                if attempt == _READ_TRIES - 1 or not self._has_left(storage):
                    raise self._unreadable(error) from error
        raise AssertionError("unreachable")

    def _has_left(self, storage: Storage) -> bool:
        with self._log.lock:  # a move that is under way ends first
            return self._log.storage is not storage

    def _unreadable(self, error: Exception) -> StorageError:
        return self._log.storage.fail(StorageError(f"cannot read {self._log.partition}: {error}"))

    def _rebuild_broken_indexes(self) -> None:
        with (
            self._log.structure_lock,
            self._log.storage.io(f"rebuild an index of {self._log.partition}"),
        ):
            for segment in self._log.segments.all:
                if segment is self._log.tip.segment:
                    continue
                if rebuild_if_broken(segment, self._log.config.index_interval_bytes):
                    segment.sync_indexes()
                try:
                    segment.transaction_index.entries()
                except CorruptIndex:
                    self._rebuild_transaction_index(segment)

    def _rebuild_transaction_index(self, segment: Segment) -> None:
        """Rebuild it from the producers as of the segment's start, and from its markers."""
        base, end = segment.base_offset, segment.end_offset
        segments = self._log.segments.all
        with self._log.snapshot_lock:
            start, entries = self._log.snapshots.latest(base) or (segments[0].base_offset, [])
        producers = ProducerState()
        producers.load(entries)
        segment.transaction_index.reset()
        replay_producers(producers, segments, start, base)
        replay_producers(producers, segments, base, end, indexed=segment)
        segment.transaction_index.flush()
