"""The log of one partition: batches in segments, and in memory only what it takes to find them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from errno import EDQUOT, ENOSPC
from pathlib import Path
from threading import Lock, RLock
from typing import NamedTuple, TypeVar

import structlog

from headrace.log.admission import admit, unchecked
from headrace.log.append import Appended
from headrace.log.filesystem import Bytes
from headrace.log.index_rebuild import rebuild_if_broken
from headrace.log.leader_epoch import EpochEnd, LeaderEpochs
from headrace.log.producer_replay import remember_batch, replay_producers
from headrace.log.producer_snapshot import encode_snapshot
from headrace.log.producer_state import Duplicate, Origin, ProducerEntry, ProducerState
from headrace.log.read import LogSlice, TimestampedOffset
from headrace.log.retention import deletable_segments
from headrace.log.segment import Placed, Segment
from headrace.log.segment_list import SegmentList, floor
from headrace.log.snapshot_shelf import SnapshotShelf
from headrace.log.storage import Storage
from headrace.log.timestamp_search import newest_timestamp, search_timestamp
from headrace.log.transaction_index import AbortedTransaction
from headrace.model.error import (
    CorruptIndex,
    DiskFull,
    InvalidArgument,
    LogClosed,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageError,
    UnexpectedAppendOffset,
)
from headrace.model.ids import TopicPartition
from headrace.model.offset import (
    NO_TIMESTAMP_MS,
    HighWatermark,
    LastStableOffset,
    LogEndOffset,
    LogStartOffset,
    Offset,
    RecoveryPoint,
)
from headrace.model.topic_config import LogConfig
from headrace.records.batch import Batch, add_sequence, stamp
from headrace.records.control import ControlType, build_marker

_log = structlog.get_logger(__name__)
_Answer = TypeVar("_Answer")

# A read that meets a segment on its way out looks again; it cannot meet many in a row.
_READ_TRIES = 5
_INT_MAX = 2**31 - 1
_NO_ROOM = (ENOSPC, EDQUOT)


class Tip(NamedTuple):
    """Where the log ends. One object, so that a reader in another thread never sees half of it."""

    end_offset: int
    segment: Segment
    size_bytes: int


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """What the loader found on disk and hands over to `PartitionLog`."""

    segments: list[Segment]
    log_start: int
    log_end: int
    recovery_point: int
    producers: ProducerState
    epochs: LeaderEpochs
    snapshots: SnapshotShelf
    owed_snapshots: dict[int, bytes] = field(default_factory=dict)


class PartitionLog:
    """Append, read, truncate, trim and sync one partition. `LogDirectory` makes them.

    Invariants:
    - log start <= last stable offset <= high watermark <= log end, and recovery point <= synced
      offset <= log end.
    - What memory claims is in the file; the file may hold more after a failed write.
    - Every record below `synced_offset` survives a crash; recovery starts at `recovery_point`,
      below which indexes, leader epochs and a producer snapshot are durable as well.
    - Data is unsynced in at most the last two segments: rolling waits for the one before.

    Crash: see `loader`. Threads: one appends and truncates. Any reads, without a lock. Flush,
    retention and compaction run in others: they hold `_lock` only to take or to change references,
    never while the disk works.
    """

    def __init__(
        self,
        storage: Storage,
        partition: TopicPartition,
        path: Path,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.partition = partition
        self.path = path
        self.config = config
        self.epochs = loaded.epochs
        self._storage = storage
        self._lock = RLock()
        # Changes of segments from any thread, one at a time. Taken before `_lock`, never after.
        self._structure = RLock()
        self._shelving = Lock()
        self._syncing = Lock()
        self._flushing = Lock()
        self._segments = SegmentList(storage, path, loaded.segments, self._lock)
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        # Producer state at the base of segments that are not flushed yet; written by `flush`.
        self._owed_snapshots = loaded.owed_snapshots
        self._tip = Tip(loaded.log_end, loaded.segments[-1], loaded.segments[-1].size_bytes)
        self._log_start = loaded.log_start
        self._high_watermark = loaded.log_start
        self._recovery_point = loaded.recovery_point
        self._synced = loaded.recovery_point
        self._synced_ms = storage.clock.monotonic_ms()
        # Counts truncations: a sync that ran across one must not claim what came after it.
        self._cuts = 0
        self._closed = False
        self.on_roll: Callable[[PartitionLog], None] = lambda log: None

    def __repr__(self) -> str:
        return f"<PartitionLog {self.partition}: {self._log_start}..{self._tip.end_offset}>"

    # -- offsets -------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> LogStartOffset:
        return LogStartOffset(self._log_start)

    @property
    def log_end_offset(self) -> LogEndOffset:
        return LogEndOffset(self._tip.end_offset)

    @property
    def high_watermark(self) -> HighWatermark:
        return HighWatermark(self._high_watermark)

    @property
    def last_stable_offset(self) -> LastStableOffset:
        """Where read_committed readers stop: the oldest transaction that is not both decided and
        replicated, or the high watermark."""
        unstable = self._producers.first_unstable_offset()
        if unstable is None or unstable >= self._high_watermark:
            return LastStableOffset(self._high_watermark)
        return LastStableOffset(max(unstable, self._log_start))

    @property
    def recovery_point(self) -> RecoveryPoint:
        return RecoveryPoint(self._recovery_point)

    @property
    def synced_offset(self) -> Offset:
        """Every record below it is on disk."""
        return Offset(self._synced)

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the newest batch, -1 in an empty log."""
        return self.epochs.latest_epoch

    @property
    def storage(self) -> Storage:
        """The disk and clock it shares with the other logs of its directory."""
        return self._storage

    @property
    def closed(self) -> bool:
        """Closed or deleted: its files may be gone."""
        return self._closed

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments.all)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first; the last one is active. A snapshot of this moment."""
        return self._segments.all

    def set_high_watermark(self, offset: int) -> HighWatermark:
        """Told by the owner: on one node the log end after every append. Kept within the log."""
        with self._lock:
            offset = max(self._log_start, min(offset, self._tip.end_offset))
            self._high_watermark = offset
            self._producers.advance(offset)
        return HighWatermark(offset)

    # -- producers -----------------------------------------------------------------------------

    def producer_entries(self) -> Iterator[ProducerEntry]:
        """The producers known here, for DescribeProducers."""
        return self._producers.entries()

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this producer has records here that no marker has decided (KIP-890)."""
        return self._producers.has_open_transaction(producer_id, producer_epoch)

    def expire_producers(self, expiration_ms: int) -> int:
        """Forget producers that were idle for producer.id.expiration.ms; how many."""
        with self._lock:
            return len(self._producers.expire(self._storage.clock.wall_ms(), expiration_ms))

    # -- writing: the one appender thread ------------------------------------------------------

    def append(
        self,
        records: Bytes,
        leader_epoch: int,
        *,
        from_client: bool = True,
        strict_start: bool = False,
    ) -> Appended:
        """Check one or more whole batches, give them the next offsets, and write them.

        Nothing is copied: a new head of 16 bytes goes before the rest of each batch as it came.

        Args:
            from_client: False for batches the broker builds itself (group offsets, transaction
                state): their epoch is checked but not sequence, key, time or size.
            strict_start: a transaction version 2 producer that is not known here must begin at
                sequence 0 (KIP-890).

        Raises:
            CorruptBatch, UnsupportedBatch, BatchTooLarge, InvalidRecord, InvalidTimestamp: the
                batch cannot be taken.
            OutOfOrderSequence, InvalidProducerEpoch, InvalidTransactionState: its producer is
                behind, fenced or in another transaction.
            DiskFull, StorageError: it could not be written; nothing of it is in the log.
        """
        now_ms = self._storage.clock.wall_ms()
        batches = admit(records, self.config, now_ms) if from_client else unchecked(records)
        if leader_epoch < 0:
            raise InvalidArgument(f"a leader appends with its epoch, not with {leader_epoch}")
        origin = Origin.CLIENT if from_client else Origin.COORDINATOR
        with self._lock:
            duplicate = self._check_producers(batches, origin, strict_start)
            if duplicate is not None:
                return Appended(
                    base_offset=duplicate.base_offset,
                    last_offset=duplicate.last_offset,
                    log_append_time_ms=(
                        duplicate.timestamp_ms if self.config.log_append_time else NO_TIMESTAMP_MS
                    ),
                    log_start_offset=self.log_start_offset,
                    duplicate=True,
                )
            append_time_ms = now_ms if self.config.log_append_time else None
            return self._append_stamped(batches, leader_epoch, append_time_ms)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
    ) -> Appended:
        """End a producer's transaction in this partition with a COMMIT or an ABORT marker.

        Raises:
            InvalidProducerEpoch, CoordinatorFenced: from a coordinator that is behind.
        """
        now_ms = self._storage.clock.wall_ms()
        marker = build_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        with self._lock:
            self._producers.check_marker(
                producer_id,
                producer_epoch,
                coordinator_epoch,
                transaction_version=transaction_version,
            )
            return self._append_stamped([Batch(marker)], leader_epoch, None)

    def append_as_follower(self, records: Bytes) -> Appended:
        """Write batches fetched from the leader, with the offsets and epochs they have.

        A last batch that the fetch cut off is left out.

        Raises:
            UnexpectedAppendOffset: a batch lies below the log end: truncate first.
        """
        batches = unchecked(records, whole=False)
        with self._lock:
            next_offset = self._tip.end_offset
            placed: list[Placed] = []
            for batch in batches:
                if batch.base_offset < next_offset:
                    raise UnexpectedAppendOffset(
                        f"{self.partition} ends at {next_offset}, so a batch from the leader "
                        f"cannot start at {batch.base_offset}"
                    )
                last_offset = batch.last_offset
                placed.append(Placed(batch, batch.base_offset, last_offset, batch.max_timestamp))
                next_offset = last_offset + 1
            if not placed:
                return Appended(log_start_offset=self.log_start_offset)
            view = batches[0].buffer[batches[0].position : batches[-1].end]
            return self._write([view], len(view), placed)

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed(f"{self.partition} was closed or deleted")

    def _check_producers(
        self, batches: list[Batch], origin: Origin, strict_start: bool
    ) -> Duplicate | None:
        """Each batch must follow what its producer has here, or in this very append."""
        pending: dict[int, tuple[int, int]] = {}
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0:
                continue
            before = pending.get(producer_id)
            if before is None:
                duplicate = self._producers.check(
                    producer_id,
                    batch.producer_epoch,
                    batch.base_sequence,
                    batch.last_sequence,
                    transactional=batch.is_transactional,
                    origin=origin,
                    strict_start=strict_start,
                )
                if duplicate is not None:
                    return duplicate
            elif before != (batch.producer_epoch, batch.base_sequence):
                raise OutOfOrderSequence(
                    f"producer {producer_id} sends epoch {batch.producer_epoch} and sequence "
                    f"{batch.base_sequence} in one request after {before}"
                )
            if len(batches) > 1:
                pending[producer_id] = (batch.producer_epoch, add_sequence(batch.last_sequence, 1))
        return None

    def _append_stamped(
        self, batches: list[Batch], leader_epoch: int, append_time_ms: int | None
    ) -> Appended:
        next_offset = self._tip.end_offset
        buffers: list[Bytes] = []
        placed: list[Placed] = []
        size_bytes = 0
        for batch in batches:
            head = stamp(batch, next_offset, leader_epoch, append_time_ms)
            start = batch.position
            buffers.append(head)
            buffers.append(batch.buffer[start + len(head) : batch.end])
            last_offset = next_offset + batch.last_offset_delta
            timestamp_ms = batch.max_timestamp if append_time_ms is None else append_time_ms
            placed.append(Placed(batch, next_offset, last_offset, timestamp_ms))
            next_offset = last_offset + 1
            size_bytes += batch.size_bytes
        return self._write(buffers, size_bytes, placed, leader_epoch, append_time_ms)

    def _write(
        self,
        buffers: Sequence[Bytes],
        size_bytes: int,
        placed: Sequence[Placed],
        leader_epoch: int | None = None,
        append_time_ms: int | None = None,
    ) -> Appended:
        """The bytes first, then what memory says of them, and the new end last of all."""
        storage = self._storage
        storage.check_online()
        self._check_open()
        last = placed[-1]
        try:
            segment = self._tip.segment
            if segment.should_roll(
                self.config, size_bytes, last.last_offset, last.max_timestamp_ms
            ):
                segment = self._roll(placed[0].base_offset, last.last_offset)
            for item in placed:
                epoch = item.batch.leader_epoch if leader_epoch is None else leader_epoch
                if epoch >= 0:
                    self.epochs.assign(epoch, item.base_offset)
            self._write_bytes(segment, buffers)
            position = segment.size_bytes
            for item in placed:
                segment.note(item, position, self.config.index_interval_bytes)
                remember_batch(self._producers, segment, item)
                position += item.batch.size_bytes
        except OSError as error:
            raise storage.fail(
                StorageError(f"cannot append to {self.partition}: {error.strerror or error}")
            ) from error
        segment.size_bytes = position
        self._tip = Tip(last.last_offset + 1, segment, position)
        return Appended(
            Offset(placed[0].base_offset),
            Offset(last.last_offset),
            NO_TIMESTAMP_MS if append_time_ms is None else append_time_ms,
            LogStartOffset(self._log_start),
            size_bytes=size_bytes,
        )

    def _write_bytes(self, segment: Segment, buffers: Sequence[Bytes]) -> None:
        try:
            segment.write(buffers)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            # Cut the part that did get in, so that the file is as long as memory says. If even
            # that fails, the caller takes the directory offline.
            file = segment.file()
            file.truncate(segment.size_bytes)
            # Or a crash could bring back what this append is told is not there.
            file.sync()
            raise DiskFull(
                f"there is no room on the disk of {self.path} for an append: free some space"
            ) from error

    def roll(self) -> Segment:
        """Close the active segment and start a new one at the log end; no-op when it is empty."""
        with self._structure, self._lock, self._storage.io(f"roll {self.partition}"):
            if self._tip.segment.size_bytes == 0:
                return self._tip.segment
            return self._roll(self._tip.end_offset, self._tip.end_offset)

    def _roll(self, base_offset: int, last_offset: int) -> Segment:
        """A new active segment, at the log end. Its files and the old one's tail are not synced.

        Only when a follower's offsets jump too far for an index does it start at the new batch.
        """
        end = self._tip.end_offset
        base = end if last_offset - end <= _INT_MAX else base_offset
        closing = self._tip.segment
        closing.close_indexes()
        self._sync_before(closing)
        self._owed_snapshots[base] = encode_snapshot(self._producers.entries())
        segment = self._segments.add(base)
        self._tip = Tip(end, segment, 0)
        self.on_roll(self)
        return segment

    def _sync_before(self, closing: Segment) -> None:
        """Wait for the disk if it is more than a segment behind: recovery relies on it."""
        segments = self._segments.all
        if len(segments) > 1 and segments[-1] is closing:
            previous = segments[-2]
            if previous.synced_bytes < previous.size_bytes:
                previous.sync()
                previous.synced_bytes = previous.size_bytes

    def truncate_to(self, offset: int) -> bool:
        """Drop the batches that reach to `offset` or further; False when there are none.

        With batches [0..9][10..19] truncating to 15 leaves [0..9] and a log end of 10: a batch goes
        whole. Durable on return, so that what is appended next cannot mix with what was there.
        """
        if offset < 0:
            raise InvalidArgument(f"a log cannot be truncated to offset {offset}")
        with self._structure, self._storage.io(f"truncate {self.partition}"), self._lock:
            if offset >= self._tip.end_offset:
                return False
            if offset < max(self._log_start, self._segments.all[0].base_offset):
                self._restart_at(offset)
                return True
            kept = floor(self._segments.all, offset)
            found = self._segments.all[kept].find(offset)
            end = offset if found is None else min(offset, found.base_offset)
            self._forget_from(end)
            self._segments.drop_last(
                len(self._segments.all) - kept - 1, self.config.file_delete_delay_ms
            )
            active = self._segments.active
            active.truncate_to(offset)
            active.end_offset = end
            self._tip = Tip(end, active, active.size_bytes)
            self.epochs.truncate_from_end(end)
            self.epochs.flush()
            with self._shelving:
                self._snapshots.remove_above(end)
            self._segments.names_changed = True
            self._segments.sync_names()
            self._reload_producers(end)
            _log.info("log_truncated", partition=str(self.partition), end_offset=end)
            return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`: a follower that fell behind the leader's start."""
        if offset < 0:
            raise InvalidArgument(f"a log cannot start at offset {offset}")
        with self._structure, self._storage.io(f"truncate {self.partition}"), self._lock:
            self._restart_at(offset)

    def _restart_at(self, offset: int) -> None:
        """The new start is durable before anything goes: a crash leaves the old log or an empty one
        at `offset`, because the loader drops all that lies below the start."""
        self._log_start = offset
        self._forget_from(offset)
        self._high_watermark = offset
        segments = self._segments
        count = len(segments.all)
        segments.drop_last(count, self.config.file_delete_delay_ms)
        active = segments.add(offset)
        self._tip = Tip(offset, active, 0)
        self.epochs.clear()
        self.epochs.flush()
        with self._shelving:
            self._snapshots.remove_above(-1)
        self._producers.clear()
        segments.names_changed = True
        segments.sync_names()
        self._synced = offset

    def _forget_from(self, end: int) -> None:
        """Nothing from `end` on may be taken for durable any more, not even after a crash."""
        self._cuts += 1
        self._recovery_point = min(self._recovery_point, end)
        self._synced = min(self._synced, end)
        self._high_watermark = min(self._high_watermark, end)
        self._owed_snapshots = {at: data for at, data in self._owed_snapshots.items() if at <= end}
        self._storage.save_offsets()

    def _reload_producers(self, end: int) -> None:
        """The state as it was at `end`: from the last snapshot below, and the heads since."""
        start, entries = self._snapshots.latest(end) or (self._segments.all[0].base_offset, [])
        self._producers.load(entries)
        replay_producers(self._producers, self._segments.all, start, end)
        self._producers.advance(self._high_watermark)

    # -- reading: any thread -------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        max_offset: int | None = None,
        at_least_one: bool = True,
    ) -> LogSlice:
        """A slice that starts at the batch holding `offset` and ends before `max_offset`.

        It lies in one segment, and at `offset == max_offset` it is empty.

        Args:
            max_bytes: the slice is not larger. It may end in the middle of a batch, as a fetch
                answer may; but not within its first one, which then is left out.
            max_offset: exclusive: the high watermark (when not given), the last stable offset, or
                the log end for a follower. A batch that reaches to it is left out whole.
            at_least_one: a first batch larger than `max_bytes` is given whole.

        Raises:
            OffsetOutOfRange: `offset` is below the log start or past the log end.
        """
        bound = self._high_watermark if max_offset is None else max_offset
        return self._retrying(lambda: self._read(offset, max_bytes, bound, at_least_one))

    def _read(self, offset: int, max_bytes: int, bound: int, at_least_one: bool) -> LogSlice:
        tip = self._tip
        if not self._log_start <= offset <= tip.end_offset:
            raise OffsetOutOfRange(
                f"{self.partition} holds offsets {self._log_start} to {tip.end_offset}, "
                f"and {offset} was asked for"
            )
        if bound > tip.end_offset:
            bound = tip.end_offset
        if offset >= bound:
            return LogSlice(None, 0, 0, Offset(offset), Offset(bound))
        if offset >= tip.segment.base_offset:
            piece = self._slice(tip.segment, tip, offset, max_bytes, bound, at_least_one)
            return piece or LogSlice(None, 0, 0, Offset(offset), Offset(bound))
        segments = self._segments.all
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
        """As `_read` within one segment; None when it holds nothing at or behind `offset`."""
        found = segment.find(offset)
        size_bytes = tip.size_bytes if segment is tip.segment else segment.size_bytes
        if found is None or found.position >= size_bytes:
            return None
        end = size_bytes
        if bound < segment.end_offset:
            stop = segment.find(bound)
            if stop is not None and stop.position < end:
                end = stop.position
        size = end - found.position
        if size > max_bytes:
            size = max_bytes
            if size < found.size_bytes:
                size = found.size_bytes if at_least_one else 0
        if size <= 0:
            return LogSlice(None, 0, 0, Offset(found.base_offset), Offset(bound))
        return LogSlice(
            segment.file(), found.position, size, Offset(found.base_offset), Offset(bound)
        )

    def offset_for_timestamp(
        self, timestamp_ms: int, *, max_offset: int | None = None
    ) -> TimestampedOffset:
        """The first record at or after a time, below `max_offset` (or the high watermark)."""
        bound = self._high_watermark if max_offset is None else max_offset
        return self._retrying(
            lambda: search_timestamp(
                self._segments.all, timestamp_ms, start=self._log_start, end=bound
            )
        )

    def offset_of_max_timestamp(self) -> TimestampedOffset:
        """The first record that no other one is newer than (ListOffsets, KIP-734)."""

        def search() -> TimestampedOffset:
            segments = self._segments.all
            newest = newest_timestamp(segments, self._log_start)
            return search_timestamp(
                segments, newest, start=self._log_start, end=self._tip.end_offset
            )

        if self._log_start == self._tip.end_offset:
            return TimestampedOffset()
        return self._retrying(search)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those that touch start..end, by first offset, as FetchResponse lists them."""

        def collect() -> list[AbortedTransaction]:
            aborted: list[AbortedTransaction] = []
            segments = self._segments.all
            for segment in segments[floor(segments, start) :]:
                collected = segment.transaction_index.collect(start, end)
                aborted.extend(collected.aborted)
                if collected.complete:
                    break
            return sorted(aborted, key=lambda transaction: transaction.first_offset)

        return self._retrying(collect)

    def epoch_end_offset(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ends, as OffsetForLeaderEpoch answers; (-1, -1) when unknown."""
        return self.epochs.end_offset(epoch, self._tip.end_offset)

    def _retrying(self, look: Callable[[], _Answer]) -> _Answer:
        """A segment may leave the log while we look into it: look again in the new list.

        A cold index that does not hold is rebuilt on the way.
        """
        self._storage.check_online()
        for attempt in range(_READ_TRIES):
            try:
                return look()
            except FileNotFoundError as error:
                self._check_open()
                if attempt == _READ_TRIES - 1:
                    raise self._unreadable(error) from error
            except CorruptIndex as error:
                self._check_open()
                if attempt == _READ_TRIES - 1:
                    raise self._unreadable(error) from error
                self._rebuild_broken_indexes()
            except OSError as error:
                raise self._unreadable(error) from error
        raise AssertionError("unreachable")

    def _unreadable(self, error: Exception) -> StorageError:
        return self._storage.fail(StorageError(f"cannot read {self.partition}: {error}"))

    def _rebuild_broken_indexes(self) -> None:
        with self._structure, self._storage.io(f"rebuild an index of {self.partition}"):
            for segment in self._segments.all:
                if segment is not self._tip.segment:
                    rebuild_if_broken(segment, self.config.index_interval_bytes)

    # -- syncing: any thread -------------------------------------------------------------------

    def sync(self) -> Offset:
        """Make every record appended before this call durable; tells up to which offset.

        One fsync when only the active segment has grown. Appends go on while the disk works.
        """
        with self._syncing:
            self._check_open()
            with self._lock:
                cuts, end = self._cuts, self._tip.end_offset
                dirty = self._unsynced()
            with self._storage.io(f"sync {self.partition}"):
                for segment, _ in dirty:
                    if not segment.retired:
                        segment.sync()
                self._segments.sync_names()
            with self._lock:
                if cuts == self._cuts:
                    for segment, size_bytes in dirty:
                        segment.synced_bytes = max(segment.synced_bytes, size_bytes)
                    self._synced = max(self._synced, end)
                    self._synced_ms = self._storage.clock.monotonic_ms()
                return Offset(self._synced)

    def _unsynced(self) -> list[tuple[Segment, int]]:
        """Oldest first; those below the synced offset need no look."""
        segments = self._segments.all
        return [
            (segment, segment.size_bytes)
            for segment in segments[floor(segments, self._synced) :]
            if segment.synced_bytes < segment.size_bytes
        ]

    def sync_due(self) -> bool:
        """Whether flush.messages or flush.ms asks for a `sync` now."""
        unsynced = self._tip.end_offset - self._synced
        if unsynced <= 0:
            return False
        waited_ms = self._storage.clock.monotonic_ms() - self._synced_ms
        return unsynced >= self.config.flush_messages or waited_ms >= self.config.flush_ms

    def flush(self, *, force: bool = False) -> RecoveryPoint:
        """`sync`, and let recovery start here: indexes and producer state become durable too.

        Args:
            force: also when nothing was appended since the last flush.
        """
        with self._flushing:
            self._check_open()
            with self._lock:
                cuts, end = self._cuts, self._tip.end_offset
                if end == self._recovery_point and not self._owed_snapshots and not force:
                    return RecoveryPoint(end)
                first = floor(self._segments.all, self._recovery_point)
                segments = self._segments.all[first:]
                owed = dict(self._owed_snapshots)
                owed[end] = encode_snapshot(self._producers.entries())
            self.sync()
            with self._storage.io(f"flush {self.partition}"):
                for segment in segments:
                    if not segment.retired:
                        segment.sync_indexes()
                self.epochs.flush()
                self._segments.names_changed = True
                self._segments.sync_names()
                with self._shelving:
                    if cuts == self._cuts:
                        for offset in sorted(owed):
                            self._snapshots.write(offset, owed[offset])
            with self._lock:
                if cuts == self._cuts:
                    self._recovery_point = max(self._recovery_point, end)
                    for offset in owed:
                        self._owed_snapshots.pop(offset, None)
                return RecoveryPoint(self._recovery_point)

    def prune_snapshots(self, durable_recovery_point: int) -> None:
        """Remove producer snapshots that no recovery can need any more."""
        with (
            self._flushing,
            self._shelving,
            self._storage.io(f"remove snapshots of {self.partition}"),
        ):
            if not self._closed:
                bases = {segment.base_offset for segment in self._segments.all}
                self._snapshots.prune(durable_recovery_point, bases)

    # -- trimming: any thread ------------------------------------------------------------------

    def delete_records(self, before: int) -> LogStartOffset:
        """DeleteRecords: readers begin at `before` from now on, also after a crash.

        Args:
            before: exclusive; -1 means the high watermark.

        Raises:
            OffsetOutOfRange: above the high watermark.
        """
        with self._structure:
            if before == -1:
                before = self._high_watermark
            if before < 0 or before > self._high_watermark:
                raise OffsetOutOfRange(
                    f"records of {self.partition} can be deleted up to the high watermark "
                    f"{self._high_watermark}, not up to {before}"
                )
            if before > self._log_start:
                self._raise_log_start(before)
            return self.log_start_offset

    def _raise_log_start(self, offset: int) -> None:
        if self._recovery_point < offset or any(owed <= offset for owed in self._owed_snapshots):
            # What producers did below is known from the log alone until it is in a snapshot.
            self.flush()
        if offset <= self._log_start:
            return
        with self._storage.io(f"move the start of {self.partition}"):
            with self._lock:
                self._log_start = offset
                self._producers.advance(offset)
            self._storage.save_offsets()
            with self._lock:
                self.epochs.truncate_from_start(offset)

    def apply_retention(self) -> int:
        """Drop what retention.ms, retention.bytes and the log start no longer keep; how many
        segments that was. Their files go after file.delete.delay.ms (`remove_deleted`)."""
        with self._structure, self._storage.io(f"apply retention to {self.partition}"):
            self._check_open()
            deletable = deletable_segments(
                self._segments.all,
                self.config,
                log_start=self._log_start,
                high_watermark=self._high_watermark,
                now_ms=self._storage.clock.wall_ms(),
            )
            count = deletable.count
            if not count:
                return 0
            if count == len(self._segments.all):
                self.roll()
            start = max(self._segments.all[count].base_offset, self._log_start)
            self._raise_log_start(start)
            self._segments.drop_first(count, self.config.file_delete_delay_ms)
            self._segments.sync_names()
            _log.info(
                "segments_deleted",
                partition=str(self.partition),
                count=count,
                reason=deletable.reason,
                log_start=start,
            )
            return count

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put compacted segments in the place of their sources: at once for readers, and whole or
        not at all in a crash.

        Args:
            old: neighbours in the log, not the active one.
            new: written aside with the stage `.cleaned`, their bytes and indexes synced. None, when
                nothing of the old ones is left.

        Raises:
            InvalidArgument: `old` is not in the log any more (retention was faster); drop `new`.
        """
        with self._structure, self._storage.io(f"replace segments of {self.partition}"):
            self._check_open()
            if old and self._recovery_point < old[-1].end_offset:
                self.flush()
            # Recovery takes a gap between segments above this point for a loss.
            self._storage.save_offsets()
            for segment in new:
                segment.sync()
                segment.sync_indexes()
                segment.synced_bytes = segment.size_bytes
                # Every file of a new segment exists, so that a missing `.swap` means: in its place.
                self._storage.files.get(segment.transaction_index.path, create=True)
            self._segments.replace(old, new, self.config.file_delete_delay_ms)

    def remove_deleted(self) -> int:
        """Remove the files of segments that left the log file.delete.delay.ms ago."""
        with self._structure, self._storage.io(f"remove segments of {self.partition}"):
            self._check_open()
            return self._segments.remove_due()

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush everything and let go of memory and files; opening again needs no scan."""
        if self._closed:
            return
        with self._structure:
            with self._lock:
                grown = self._tip.segment.close_indexes()
            self.flush(force=grown)
            with self._flushing, self._storage.io(f"close {self.partition}"):
                self._closed = True
                self.epochs.flush()
                for segment in self._segments.all:
                    segment.close()

    def abandon(self) -> None:
        """Let go without writing anything: the directory is offline, or is being removed."""
        with self._structure, self._flushing, self._syncing:
            self._closed = True
            for segment in self._segments.all:
                segment.discard()
