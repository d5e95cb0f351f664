"""One round of compaction: map the keys of the dirty end of a log, then rewrite all of it by them.

    1. The keys between `first_dirty` and `end` go into an `OffsetMap`, newest offset each. When the
       map is full the round ends there, and the next one goes on.
    2. Segments from the log's start to there are grouped (`group_segments`) and each group is
       written, without the records that have a newer one, into a `.cleaned` segment.
    3. `PartitionLog.replace_segments` puts it in the place of its sources.

What must hold:

Rule 1: groups are replaced in offset order, each durable before the next. A tombstone may go only
after the older records of its key have gone for good; they lie in its own group or an earlier one.
Rule 2: offsets never change. A batch that stays keeps its base and last offset and its sequences,
whatever it loses, so offsets, the producer state and the leader epochs read the same.
Rule 3: a crash leaves each group old or new. The checkpoint of where the round got to is written
after it (`Cleaner`); without it the same round is done again and changes nothing.
Rule 4: only what lies below a durable recovery point is rewritten. Recovery replays from there on
to rebuild the producer state, so it never misses a batch that compaction dropped.
Rule 5: only the replacement itself holds the log's lock: readers and appends go on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import EDQUOT, ENOSPC

from headrace.log.compaction.batch_filter import BatchFilter
from headrace.log.compaction.cleanable_range import CleanableRange
from headrace.log.compaction.cleaned_segment import CleanedSegment
from headrace.log.compaction.cleaned_transactions import CleanedTransactions
from headrace.log.compaction.compaction_room import RESERVED_BYTES, room_bytes
from headrace.log.compaction.inflater import Inflater
from headrace.log.compaction.live_offsets import LiveOffsets
from headrace.log.compaction.offset_map import DEFAULT_LOAD_FACTOR, OffsetMap
from headrace.log.compaction.rewrite_plan import RewritePlan, plan_mapping
from headrace.log.compaction.segment_chunk import ChunkReader, SegmentChunk
from headrace.log.compaction.segment_group import group_segments
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.segment.segment import Segment
from headrace.model.clock import Clock
from headrace.model.error import (
    CompactionStopped,
    CorruptIndex,
    DiskFull,
    HeadraceError,
    InvalidArgument,
)
from headrace.model.ids import TopicPartition
from headrace.model.offset import Offset
from headrace.records.kernel import batch_table

DEFAULT_MEMORY_BYTES = 128 * 1024 * 1024
DEFAULT_CHUNK_BYTES = 2 * 1024 * 1024
DEFAULT_MAX_INFLATED_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStats:
    """What a round did.

    Attributes:
        end_offset: all below is compacted now; the next round's first dirty offset.
        map_used, map_capacity: how many keys the map held, and how many it could.
        bytes_read, bytes_written: of segments, both passes.
    """

    partition: TopicPartition
    first_dirty: Offset
    end_offset: Offset
    map_used: int = 0
    map_capacity: int = 0
    segments_read: int = 0
    segments_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    elapsed_ms: int = 0


class Compactor:
    """Compacts logs, one at a time, with memory that does not depend on their size.

    That is the offset map (log.cleaner.dedupe.buffer.size) and some chunks: about 12 times
    `chunk_bytes`, and in logs of compressed batches the largest of them inflated, twice, and some
    MiB that a thread inflates ahead.
    One thread at a time; a broker that compacts with several has a compactor for each.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        load_factor: float = DEFAULT_LOAD_FACTOR,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
        on_bytes: Callable[[int], object] = lambda size_bytes: None,
    ) -> None:
        """`on_bytes` is called with the size of each read and write and may sleep, as
        `Throttle.take` does: that is how compaction is held to a rate.
        """
        if chunk_bytes < 1024:
            raise InvalidArgument(f"chunk_bytes is {chunk_bytes}: write at least 1024")
        self._clock = clock
        self._map = OffsetMap(memory_bytes, load_factor)
        self._chunk_bytes = chunk_bytes
        self._max_inflated_bytes = max_inflated_bytes
        self._on_bytes = on_bytes

    def clean(
        self,
        log: PartitionLog,
        cleanable: CleanableRange,
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> CompactionStats:
        """Compact what `cleanable` allows, as far as the map's memory reaches.

        Args:
            stopping: asked between chunks; True ends the round with `CompactionStopped`.

        Raises:
            UncleanableLog: stored bytes cannot be opened; the groups before them are compacted.
            CompactionStopped: `stopping` said so, or the log changed meanwhile.
            DiskFull: what it may write does not fit; the groups before are compacted.
        """
        if cleanable.end <= cleanable.first_dirty:
            raise InvalidArgument(
                f"{log.partition} has nothing to compact: its dirty part from "
                f"{cleanable.first_dirty} on ends at {cleanable.end}"
            )
        with Inflater(self._max_inflated_bytes) as inflater:
            return _Round(self, log, cleanable, stopping, inflater).run()


class _Round:
    """The state of one `Compactor.clean`."""

    def __init__(
        self,
        owner: Compactor,
        log: PartitionLog,
        cleanable: CleanableRange,
        stopping: Callable[[], bool],
        inflater: Inflater,
    ) -> None:
        self._log = log
        self._truncations = log.truncations
        self._cleanable = cleanable
        self._clock = owner._clock
        self._map = owner._map
        self._inflater = inflater
        self._on_bytes = owner._on_bytes
        self._stopping = stopping
        self._reader = ChunkReader(owner._chunk_bytes, self._account_read)
        self._bytes_read = 0
        self._stats = CompactionStats(
            partition=log.partition,
            first_dirty=cleanable.first_dirty,
            end_offset=cleanable.first_dirty,
        )

    def run(self) -> CompactionStats:
        started_ms = self._clock.monotonic_ms()
        now_ms = self._clock.wall_ms()
        segments = [s for s in self._log.segments if s.base_offset < self._cleanable.end]
        # Before anything is written or read for nothing: where a later group had no room, each
        # round would do those before it again.
        self._check_room(max(map(_size_bytes, self._groups(segments)), default=0))
        self._secure_recovery_point()
        end_offset = self._map_keys(segments)
        rewritten = [segment for segment in segments if segment.base_offset < end_offset]
        batch_filter = BatchFilter(
            self._map,
            end_offset=end_offset,
            now_ms=now_ms,
            delete_retention_ms=self._log.config.delete_retention_ms,
            inflater=self._inflater,
        )
        first, end = self._log.segments[0].base_offset, self._cleanable.end
        plan = RewritePlan(
            end_offset=end_offset,
            range_end=end,
            now_ms=now_ms,
            aborted=self._log.aborted_transactions(first, end),
            producers=self._log.producer_entries(),
            live=LiveOffsets(self._map, self._cleanable.first_dirty, end_offset),
        )
        for group in self._groups(rewritten):
            self._rewrite(group, batch_filter, plan)
        return replace(
            self._stats,
            end_offset=Offset(end_offset),
            map_used=self._map.used,
            map_capacity=self._map.capacity,
            segments_read=len(rewritten),
            bytes_read=self._bytes_read,
            elapsed_ms=self._clock.monotonic_ms() - started_ms,
        )

    def _groups(self, segments: Sequence[Segment]) -> list[tuple[Segment, ...]]:
        config = self._log.config

        def group() -> list[tuple[Segment, ...]]:
            try:
                return group_segments(
                    segments,
                    end=self._cleanable.end,
                    max_bytes=config.segment_bytes,
                    max_index_bytes=config.segment_index_bytes,
                )
            except (CorruptIndex, FileNotFoundError):
                if any(segment.retired for segment in segments):
                    raise self._changed() from None
                raise

        return self._log.retrying(group)

    def _changed(self) -> CompactionStopped:
        return CompactionStopped(f"{self._log.partition} changed while it was compacted")

    def _secure_recovery_point(self) -> None:
        if self._log.recovery_point < self._cleanable.end:
            self._log.flush()
        with self._log.storage.io(f"checkpoint {self._log.partition} before compaction"):
            self._log.storage.save_offsets()

    # -- the first pass: keys into the map

    def _map_keys(self, segments: list[Segment]) -> int:
        """Map what is dirty; return the offset from which on keys are not mapped."""
        start, end = self._cleanable.first_dirty, self._cleanable.end
        transactions = CleanedTransactions(self._log.aborted_transactions(start, end))
        self._map.reset(end - start)
        for segment in segments:
            if segment.end_offset <= start:
                continue
            with self._log.storage.io(f"read {self._log.partition} for compaction"):
                for chunk in self._read(segment, start):
                    plan_mapping(chunk, transactions)
                    full_at = self._map_chunk(chunk)
                    if full_at is not None:
                        return full_at
        return end

    def _map_chunk(self, chunk: SegmentChunk) -> int | None:
        """Map the keys of a chunk; None when all went in, else where the next round has to begin.

        That is before a batch, so that the tombstones in it get their delete horizon when they are
        compacted and not before. Only a batch with more keys than the map holds is cut in two.
        """
        start = self._cleanable.first_dirty
        for body, first, last in chunk.bodies(self._inflater):
            row, offset = self._map.fill(body, chunk.batches, first, last, start)
            if row < 0:
                raise chunk.damaged(-1 - row, "the records of a batch do not parse")
            if row < last:
                base_offset = int(chunk.batches[row, batch_table.BASE_OFFSET])
                return base_offset if base_offset > start else offset
        return None

    # -- the second pass: segments without what the map says is old

    def _check_room(self, needed: int) -> None:
        """Refuse to write a group's replacement that may leave too little room for appends. Its
        sources lie beside it until file.delete.delay.ms after the exchange."""
        log = self._log
        room = room_bytes(log.storage, log.path.parent)
        if room < needed:
            raise DiskFull(
                f"cannot compact {log.partition}: it may write {needed} bytes and leaves "
                f"{RESERVED_BYTES} free, and the disk has {room + RESERVED_BYTES}: free some space"
            )

    def _rewrite(
        self, group: tuple[Segment, ...], batch_filter: BatchFilter, plan: RewritePlan
    ) -> None:
        log = self._log
        self._check_room(_size_bytes(group))
        with log.storage.io(f"compact {log.partition}"):
            cleaned = self._write(group, batch_filter, plan)
        if cleaned is None:
            return
        segment = cleaned.segment
        self._stats = replace(
            self._stats,
            segments_written=self._stats.segments_written + 1,
            bytes_written=self._stats.bytes_written + segment.size_bytes,
        )
        try:
            log.replace_segments(group, (segment,), self._truncations)
        except InvalidArgument:
            # Retention or a truncation took one of them meanwhile.
            segment.remove()
            raise self._changed() from None
        except DiskFull as error:
            segment.remove()
            raise CompactionStopped(str(error)) from error

    def _write(
        self, group: tuple[Segment, ...], batch_filter: BatchFilter, plan: RewritePlan
    ) -> CleanedSegment | None:
        """Write the group's replacement, durable but aside; None when nothing would change."""
        log = self._log
        try:
            cleaned = CleanedSegment(
                log.storage,
                log.path,
                group[0].base_offset,
                interval_bytes=log.config.index_interval_bytes,
            )
        except FileNotFoundError:
            raise CompactionStopped(f"{log.partition} was deleted meanwhile") from None
        try:
            if self._fill(cleaned, group, batch_filter, plan) or len(group) > 1:
                cleaned.finish(group[-1].end_offset)
                return cleaned
        except HeadraceError:
            cleaned.discard()
            raise
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise
            # Leave the remaining space to appends: compaction can wait.
            cleaned.discard()
            raise CompactionStopped(
                f"the disk is too full to compact {log.partition}: {error.strerror}"
            ) from error
        cleaned.discard()
        return None

    def _fill(
        self,
        cleaned: CleanedSegment,
        group: tuple[Segment, ...],
        batch_filter: BatchFilter,
        plan: RewritePlan,
    ) -> bool:
        """Write what stays of the group; False when that is everything, byte for byte."""
        changed = False
        for segment in group:
            for chunk in self._read(segment, segment.base_offset):
                for transaction in plan.set(chunk):
                    cleaned.append_aborted(transaction)
                filtered = batch_filter.apply(chunk)
                cleaned.append(filtered)
                self._on_bytes(len(filtered.data))
                changed |= filtered.changed
                self._stats = replace(
                    self._stats,
                    records_read=self._stats.records_read + filtered.records_read,
                    records_kept=self._stats.records_kept + filtered.records_kept,
                )
        return changed

    def _read(self, segment: Segment, start_offset: int) -> Iterator[SegmentChunk]:
        """Yield the chunks of a segment from the batch that holds `start_offset` on."""
        try:
            position = _position_of(segment, start_offset)
            file = segment.file()
        except FileNotFoundError:
            raise CompactionStopped(
                f"{segment} left {self._log.partition} while it was being compacted"
            ) from None
        yield from self._reader.read(file, position, segment.size_bytes)

    def _account_read(self, size_bytes: int) -> None:
        if self._stopping():
            raise CompactionStopped(f"the compaction of {self._log.partition} was asked to stop")
        self._bytes_read += size_bytes
        self._on_bytes(size_bytes)


def _position_of(segment: Segment, offset: int) -> int:
    """Return where the batch that holds `offset` starts, or some batch before it."""
    if offset <= segment.base_offset:
        return 0
    try:
        found = segment.find(offset)
    except CorruptIndex:
        return 0
    return segment.size_bytes if found is None else found.position


def _size_bytes(group: Sequence[Segment]) -> int:
    return sum(segment.size_bytes for segment in group)
