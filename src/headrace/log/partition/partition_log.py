"""The log of one partition: batches in segments, and in memory only what it takes to find them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from headrace.log.filesystem import Bytes
from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.log.partition.admission import CheckSchemas, admit, must_open
from headrace.log.partition.appended import Appended
from headrace.log.partition.appender import Appender
from headrace.log.partition.leader_epochs import EpochEnd
from headrace.log.partition.log_flusher import LogFlusher
from headrace.log.partition.log_mirror import LogMirror
from headrace.log.partition.log_reader import LogReader
from headrace.log.partition.log_slice import LogSlice
from headrace.log.partition.log_state import LogState
from headrace.log.partition.log_trimmer import LogTrimmer
from headrace.log.partition.log_truncator import LogTruncator
from headrace.log.partition.plain_append import PlainAppend
from headrace.log.partition.segment_roller import SegmentRoller
from headrace.log.partition.timestamp_search import FoundRecord
from headrace.log.producer.producer_entry import ProducerEntry
from headrace.log.segment.segment import Segment
from headrace.log.storage import Storage
from headrace.model.error import HeadraceError, UnexpectedAppendOffset
from headrace.model.ids import LeaderEpoch
from headrace.model.offset import (
    HighWatermark,
    LastStableOffset,
    LogEndOffset,
    LogStartOffset,
    Offset,
    RecoveryPoint,
)
from headrace.model.topic_config import LogConfig
from headrace.records.batch import HEADER_BYTES, Batch, view_of

_Answer = TypeVar("_Answer")


class PartitionLog:
    """Append, read, truncate, trim and sync one partition. `LogDirectory` opens them.

    Its parts share one `LogState`, each in its file and with its own invariants: `PlainAppend` and
    `Appender` write, `SegmentRoller` starts segments, `LogReader` reads, `LogFlusher` syncs and
    flushes, `LogTruncator` drops the end and `LogTrimmer` the start. Their methods hold the full
    description of what this class offers.

    Crash: every record below `synced_offset` survives; recovery starts at `recovery_point`, below
    which indexes, leader epochs and a producer snapshot are durable as well. See `loader`.

    Threads: one at a time appends or truncates. Any reads, without a lock. Flush, retention and
    compaction run in others: they hold the log's lock only to read or to change references, never
    while the disk works. Only truncation does, when nothing appends.
    """

    def __init__(self, state: LogState) -> None:
        self.partition = state.partition
        self.epochs = state.epochs
        self._state = state
        self._reader = LogReader(state)
        self._flusher = LogFlusher(state)
        self._roller = SegmentRoller(state)
        plain = PlainAppend(state)
        appender = Appender(state, plain, self._roller)
        self._truncator = LogTruncator(state)
        self._trimmer = LogTrimmer(state, self._reader, self._flusher, self._roller)
        # Bound here: a delegating method would cost every small Produce and Fetch one more call.
        self.append_plain = plain.append
        self.append = appender.append
        self.append_marker = appender.append_marker
        self.append_as_follower = appender.append_as_follower
        self.read = self._reader.read
        self.is_recent = self._reader.is_recent

    def __repr__(self) -> str:
        return f"<PartitionLog {self.partition}: {self._state.log_start}..{self.log_end_offset}>"

    @property
    def path(self) -> Path:
        return self._state.path

    # -- offsets -------------------------------------------------------------------------------
    # Every fetch asks for three of them, and calling a NewType costs as much as all the rest.

    @property
    def log_start_offset(self) -> LogStartOffset:
        return self._state.log_start  # type: ignore[return-value]

    @property
    def log_end_offset(self) -> LogEndOffset:
        return self._state.tip.end_offset  # type: ignore[return-value]

    @property
    def high_watermark(self) -> HighWatermark:
        return self._state.high_watermark  # type: ignore[return-value]

    @property
    def last_stable_offset(self) -> LastStableOffset:
        """Where read_committed readers stop: the oldest transaction that is not both decided and
        replicated, or the high watermark."""
        state = self._state
        # First: a transaction that begins after this look lies above it.
        high_watermark = state.high_watermark
        if not state.producers.has_unstable:
            return high_watermark  # type: ignore[return-value]
        with state.lock:
            unstable = state.producers.first_unstable_offset()
        if unstable is None or unstable >= high_watermark:
            return high_watermark  # type: ignore[return-value]
        return LastStableOffset(max(unstable, state.log_start))

    @property
    def recovery_point(self) -> RecoveryPoint:
        return RecoveryPoint(self._state.recovery_point)

    @property
    def synced_offset(self) -> Offset:
        """Every record below it is on disk."""
        return Offset(self._state.synced)

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the newest batch, -1 in an empty log."""
        return self.epochs.latest_epoch

    def set_high_watermark(self, offset: int) -> HighWatermark:
        """Set what all replicas in sync have; on one node that is the log end after every append.

        Kept within the log start and the log end.
        """
        state = self._state
        with state.lock:
            end = state.tip.end_offset
            if offset > end:
                offset = end
            if offset < state.log_start:
                offset = state.log_start
            state.high_watermark = offset
            state.producers.advance(offset)
        return HighWatermark(offset)

    def assert_order(self) -> None:
        """Check the order of the offsets, where they may fall; the crash tests check it too."""
        state = self._state
        with state.lock:
            start, end = state.log_start, state.tip.end_offset
            stable, high = self.last_stable_offset, state.high_watermark
            assert start <= stable <= high <= end, (start, stable, high, end)
            durable, synced = state.recovery_point, state.synced
            assert durable <= synced <= end, (durable, synced, end)

    # -- opening batches: any thread ---------------------------------------------------------

    def must_open(self, records: Bytes) -> bool:
        """Return whether a client's batch must be inflated or compressed, or its schemas checked:
        call `admit` in a thread then, and hand `append` what it returns."""
        return must_open(records, self._state.config)

    def admit(
        self,
        records: Bytes,
        *,
        patient: bool = True,
        check_schemas: CheckSchemas | None = None,
    ) -> list[Batch]:
        """Check a client's batches, and bring them into the topic's codec (`admission.admit`)."""
        state = self._state
        return admit(
            records,
            state.config,
            state.storage.clock.wall_ms(),
            patient=patient,
            check_schemas=check_schemas,
        )

    # -- what it is made of --------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """The topic's configuration; its owner replaces it as a whole when it changes."""
        return self._state.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._state.config = config

    @property
    def storage(self) -> Storage:
        """The disk and clock it shares with the other logs of its directory."""
        return self._state.storage

    @property
    def closed(self) -> bool:
        """Closed or deleted: its files may be gone."""
        return self._state.closed

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._state.segments.all)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first; the last one is active. A snapshot of this moment."""
        return self._state.segments.all

    # -- producers -----------------------------------------------------------------------------

    @property
    def truncations(self) -> int:
        """How many there were since the log was opened."""
        return self._state.truncations

    def producer_entries(self) -> list[ProducerEntry]:
        """Return the producers known here as they are now, for DescribeProducers and compaction:
        appends change the originals, and expiry removes them, in other threads."""
        state = self._state
        with state.lock:
            return [entry.copy() for entry in state.producers.entries()]

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether this producer has records here that no marker has decided (KIP-890)."""
        return self._state.producers.has_open_transaction(producer_id, producer_epoch)

    def awaits_batch(self, producer_id: int, producer_epoch: int, sequence: int) -> bool:
        """Return whether a batch of this producer is not here, and may still come."""
        state = self._state
        with state.lock:
            return state.producers.awaits(producer_id, producer_epoch, sequence)

    def expire_producers(self, expiration_ms: int) -> int:
        """Forget producers that were idle for producer.id.expiration.ms; return how many."""
        state = self._state
        with state.lock:
            return len(state.producers.expire(state.storage.clock.wall_ms(), expiration_ms))

    # -- reading: any thread -------------------------------------------------------------------

    def offset_for_timestamp(
        self, timestamp_ms: int, *, max_offset: int | None = None
    ) -> FoundRecord:
        """Find the first record at or after a time (`LogReader.offset_for_timestamp`)."""
        return self._reader.offset_for_timestamp(timestamp_ms, max_offset=max_offset)

    def offset_of_max_timestamp(self) -> FoundRecord:
        """Find the first of the newest records (`LogReader.offset_of_max_timestamp`)."""
        return self._reader.offset_of_max_timestamp()

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransactionEntry]:
        """List the aborted transactions of a range (`LogReader.aborted_transactions`)."""
        return self._reader.aborted_transactions(start, end)

    def aborted_in(self, start: int, piece: LogSlice) -> list[AbortedTransactionEntry]:
        """List the aborted transactions of what was read (`LogReader.aborted_in`)."""
        return self._reader.aborted_in(start, piece)

    def retrying(self, look: Callable[[], _Answer]) -> _Answer:
        """Read from segments that may leave the log meanwhile (`LogReader.retrying`)."""
        return self._reader.retrying(look)

    def epoch_end_offset(self, epoch: int) -> EpochEnd:
        """Return where a leader epoch ends, as OffsetForLeaderEpoch does; (-1, -1) if unknown.

        An epoch of which nothing is left ends at the log start, where readers go on.
        """
        end = self.epochs.end_offset(epoch, self._state.tip.end_offset)
        log_start = self._state.log_start
        if 0 <= end.end_offset <= log_start:
            return EpochEnd(LeaderEpoch(epoch), Offset(log_start))
        return end

    # -- truncating: while nothing appends ---------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Drop the batches that reach to `offset` or further (`LogTruncator.truncate_to`)."""
        truncated = self._truncator.truncate_to(offset)
        if truncated:
            self.assert_order()
        return truncated

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at `offset` (`LogTruncator.truncate_fully_and_start_at`)."""
        self._truncator.truncate_fully_and_start_at(offset)
        self.assert_order()

    def spans_start(self, records: Bytes) -> bool:
        """Return whether the first batch begins below the start of this log, which is empty, and
        reaches across it: `restart_with` takes it."""
        end = self._state.tip.end_offset
        if self._state.log_start != end or len(records) < HEADER_BYTES:
            return False
        batch = Batch(view_of(records))
        return batch.base_offset < end <= batch.last_offset

    def restart_with(self, records: Bytes) -> Appended:
        """Append batches from the leader to this empty log, the first of which spans its start.

        DeleteRecords may let the leader's log start in the middle of a batch, and a follower copies
        the batch whole (KAFKA-6975). With batches [0..9][10..19] and a start of 5 the log holds
        both, in a segment that begins at 0, and its readers begin at 5.

        Raises:
            UnexpectedAppendOffset: the log is not empty, or the batch does not span its start.
        """
        state = self._state
        with state.structure_lock, state.lock:
            start = state.log_start
            if not self.spans_start(records):
                raise UnexpectedAppendOffset(f"no batch spans the start of {self.partition}")
            base = Batch(view_of(records)).base_offset
            self._truncator.truncate_fully_and_start_at(start, segment_base=base)
            try:
                appended = self.append_as_follower(records)
            except HeadraceError:
                self._truncator.truncate_fully_and_start_at(start)
                raise
        self.assert_order()
        return appended

    # -- keeping it durable and within bounds: any thread --------------------------------------

    def roll(self) -> Segment:
        """Start a new active segment, unless the present one is empty (`SegmentRoller.roll`)."""
        return self._roller.roll()

    def sync(self) -> Offset:
        """Make every record appended before this call durable (`LogFlusher.sync`)."""
        return self._flusher.sync()

    def sync_due(self) -> bool:
        """Return whether flush.messages or flush.ms asks for a `sync` now."""
        return self._flusher.sync_due()

    def flush(self, *, force: bool = False) -> RecoveryPoint:
        """Make everything durable and let recovery start here (`LogFlusher.flush`)."""
        return self._flusher.flush(force=force)

    def prune_snapshots(self, durable_recovery_point: int) -> None:
        """Remove producer snapshots that no recovery can need any more."""
        self._flusher.prune_snapshots(durable_recovery_point)

    def delete_records(self, before: int) -> LogStartOffset:
        """Let readers begin at `before` from now on (`LogTrimmer.delete_records`)."""
        return self._trimmer.delete_records(before)

    def apply_retention(self) -> int:
        """Drop the segments that are too old or too many (`LogTrimmer.apply_retention`)."""
        return self._trimmer.apply_retention()

    def replace_segments(
        self, old: Sequence[Segment], new: Sequence[Segment], truncations: int | None = None
    ) -> None:
        """Put compacted segments in the place of others (`LogTrimmer.replace_segments`)."""
        self._trimmer.replace_segments(old, new, truncations)

    def remove_deleted(self) -> int:
        """Remove the files of segments that left the log file.delete.delay.ms ago."""
        return self._trimmer.remove_deleted()

    def maintain(self, producer_expiration_ms: int) -> None:
        """Do what is due: delayed deletion, which makes room, retention, expiry, and a flush of
        segments that were rolled."""
        self.remove_deleted()
        self.apply_retention()
        self.expire_producers(producer_expiration_ms)
        if self.recovery_point < self.segments[-1].base_offset:
            self.flush()

    # -- moving to another directory: one thread ------------------------------------------------

    def mirror(self, storage: Storage, path: Path) -> LogMirror:
        """Begin a copy of this log in the empty directory `path`, to go on there (`LogMirror`)."""
        return LogMirror(self._state, storage, path)

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush everything and let go of memory and files; opening again needs no scan."""
        state = self._state
        if state.closed:
            return
        with state.structure_lock, state.storage.io(f"close {self.partition}"):
            with state.lock:
                grown = state.tip.segment.close_indexes()
            self._flusher.flush(force=grown)
            with state.flush_lock:
                state.closed = True
                self.epochs.flush()
                for segment in state.segments.all:
                    segment.close()

    def abandon(self) -> None:
        """Let go without writing anything: the directory is offline, or is being removed."""
        state = self._state
        with state.structure_lock, state.flush_lock, state.sync_lock:
            state.closed = True
            for segment in state.segments.all:
                segment.discard()
