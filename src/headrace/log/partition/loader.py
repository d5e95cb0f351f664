"""Opening a partition: at once after a clean stop, with all that was synced after a crash.

Theory of operation. Below the recovery point all is durable and believed: batches, indexes, leader
epochs, and a producer snapshot at or before it. Above it nothing is: a crash may have kept any part
of what was written. So recovery starts at the newest snapshot at or below the recovery point and
scans to the end, checking every CRC, and rebuilds indexes, epochs and producers as it goes.

Rule 1: the first batch that does not check is where the log ends, if everything behind it can be
    unsynced. The file is cut there, later segments are dropped, and both are logged and counted.
Rule 2: it cannot, if it lies below the recovery point, or in any but the last two segments (see
    `PartitionLog`: rolling waits for the one before). Then synced records are damaged. Nothing is
    cut; the directory goes offline, for a person to look at.
Rule 3: segments follow each other without a gap, except where compaction made one.
Rule 4: what lies below the log start is dropped, even if that leaves nothing: offsets that were
    deleted are never given out again.
Rule 5: what was repaired is durable before the log is used, so that old bytes cannot mix with new.
    On a full disk that is the records alone, which need no more room: it must be read all the same.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import structlog

from headrace.log.partition.leader_epochs import FILE_NAME as EPOCHS_NAME
from headrace.log.partition.leader_epochs import LeaderEpochs
from headrace.log.partition.leftover import PartitionFiles, tidy
from headrace.log.partition.log_state import LoadedLog, LogState
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.producer.producer_replay import (
    remember_batch,
    replay_producers,
    restore_unreplicated,
)
from headrace.log.producer.producer_snapshot import encode_snapshot
from headrace.log.producer.producer_state import ProducerState
from headrace.log.producer.snapshot_files import SnapshotFiles
from headrace.log.segment.batch_scan import BatchScan, walk_heads
from headrace.log.segment.index_rebuild import rebuild_if_broken, rebuild_indexes
from headrace.log.segment.placed_batch import PlacedBatch
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor
from headrace.log.segment.segment_name import LOG, OFFSET_INDEX, TIME_INDEX, segment_file_name
from headrace.log.storage import Storage
from headrace.model.error import CorruptIndex, CorruptLog, DiskFull
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig

_log = structlog.get_logger(__name__)

# A segment that was rolled may be unsynced, and the active one; see Rule 2.
_UNSYNCED_SEGMENTS = 2


@dataclass(slots=True)
class RecoveryReport:
    """What opening a partition had to do. All zero after a clean stop.

    Attributes:
        scanned_bytes: looked at, CRC and all.
        cut_bytes: of a torn tail, and of segments behind it.
        dropped_segments: behind a torn tail.
        rebuilt_indexes: of segments that were not scanned.
    """

    scanned_bytes: int = 0
    cut_bytes: int = 0
    dropped_segments: int = 0
    rebuilt_indexes: int = 0


def load_log(
    storage: Storage,
    partition: TopicPartition,
    path: Path,
    config: LogConfig,
    *,
    log_start: int = 0,
    recovery_point: int = 0,
    high_watermark: int = 0,
    clean: bool = False,
    on_roll: Callable[[TopicPartition], object] = lambda partition: None,
) -> tuple[PartitionLog, RecoveryReport]:
    """Open the log in `path`, or start an empty one there.

    Args:
        clean: the directory was closed properly and has not been used since.
        on_roll: called after each roll, while the log's lock is held: it must not wait.

    Raises:
        CorruptLog: synced records are damaged. The directory is offline.
        DiskFull: something must be repaired for which there is no room.
        StorageError: the disk refused. The directory is offline.
    """
    with storage.io(f"open {partition}"):
        loader = _Loader(storage, path, config, recovery_point)
        loaded = loader.load(log_start, clean)
        loader.restore_unreplicated(max(high_watermark, loaded.log_start))
        log = PartitionLog(LogState(storage, partition, path, config, loaded, on_roll))
        if loader.repaired:
            log.sync()
            with suppress(DiskFull):  # the next flush writes what saves another recovery
                log.flush(force=True)
        log.set_high_watermark(high_watermark)
    return log, loader.recovered


def new_log(
    storage: Storage,
    partition: TopicPartition,
    path: Path,
    config: LogConfig,
    on_roll: Callable[[TopicPartition], object],
) -> PartitionLog:
    """Start an empty log in `path`, a directory that was never used; nothing is durable yet.

    Raises:
        StorageError: the disk refused. The directory is offline.
    """
    with storage.io(f"create {partition}"):
        segment = Segment(storage, path, 0, new=True)
        segment.create()
        loaded = LoadedLog(
            segments=[segment],
            log_start=0,
            log_end=0,
            recovery_point=0,
            producers=ProducerState(),
            epochs=LeaderEpochs(
                storage.filesystem, path / EPOCHS_NAME, write_through=False, new=True
            ),
            snapshots=SnapshotFiles(storage, path, ()),
            new=True,
        )
        return PartitionLog(LogState(storage, partition, path, config, loaded, on_roll))


class _Loader:
    """Opens one log, once."""

    def __init__(
        self, storage: Storage, path: Path, config: LogConfig, recovery_point: int
    ) -> None:
        self.recovered = RecoveryReport()
        self.repaired = False  # there is something to flush, see Rule 5
        self._storage = storage
        self._path = path
        self._config = config
        self._interval_bytes = config.index_interval_bytes
        self._recovery_point = recovery_point
        self._never_flushed = recovery_point == 0
        self._producers = ProducerState()
        self._snapshot_offset = 0
        self._epochs = LeaderEpochs(storage.filesystem, path / EPOCHS_NAME, write_through=False)
        self._segments: list[Segment] = []
        self._unindexed: set[Segment] = set()
        self._owed_snapshots: dict[int, bytes] = {}

    def load(self, log_start: int, clean: bool) -> LoadedLog:
        files = tidy(self._storage, self._path)
        self._snapshots = SnapshotFiles(self._storage, self._path, files.snapshots)
        self._open_segments(files, log_start)
        if not self._segments:
            log_end = self._start_empty(log_start)
        elif clean:
            log_end = self._load_clean()
        else:
            log_end = self._recover()
        if log_start > log_end:
            # Records were deleted up to an offset that the crash lost: start there.
            for segment in self._segments:
                segment.remove()
            log_end = self._start_empty(log_start)
        log_start = max(log_start, self._segments[0].base_offset)
        self._epochs.truncate_from_end(log_end)
        self._epochs.truncate_from_start(log_start)
        return LoadedLog(
            segments=self._segments,
            log_start=log_start,
            log_end=log_end,
            recovery_point=min(self._recovery_point, log_end),
            producers=self._producers,
            epochs=self._epochs,
            snapshots=self._snapshots,
            owed_snapshots=self._owed_snapshots,
            new=self._never_flushed,
        )

    def _open_segments(self, files: PartitionFiles, log_start: int) -> None:
        bases = sorted(files.segments)
        # Needed are the log start and what producers did since their last snapshot.
        snapshots = [each for each in files.snapshots if each <= self._recovery_point]
        first_needed = min(log_start, max(snapshots, default=0))
        needed = max((base for base in bases if base <= first_needed), default=0)
        for base, following in zip_longest(bases, bases[1:]):
            path = self._path / segment_file_name(base, LOG)
            size_bytes = self._storage.filesystem.size(path)
            segment = Segment(
                self._storage, self._path, base, size_bytes=size_bytes, end_offset=following
            )
            if base < needed:
                segment.remove()
                continue
            self._segments.append(segment)
            if not {OFFSET_INDEX, TIME_INDEX} <= files.segments[base]:
                self._unindexed.add(segment)

    def _rebuild(self, segment: Segment) -> None:
        rebuild_indexes(segment, self._interval_bytes)
        segment.sync_indexes()
        self._unindexed.discard(segment)
        self.recovered.rebuilt_indexes += 1

    def _start_empty(self, offset: int) -> int:
        segment = Segment(self._storage, self._path, offset, new=True)
        segment.create()
        if offset:
            # Its name says where the log continues. That of a log which starts at 0 says nothing.
            self._storage.filesystem.sync_directory(self._path)
        self._segments = [segment]
        self._snapshots.remove_above(-1)
        self._snapshot_offset = 0
        self._producers.clear()
        # They would speak of records that a crash took, or that another log took the place of. Also
        # after one more crash: nothing else may be flushed in a log that stays empty.
        self._epochs.clear()
        if offset:
            self._epochs.flush()
        self._recovery_point = min(self._recovery_point, offset)
        return offset

    def _load_clean(self) -> int:
        for segment in list(self._unindexed):
            self._rebuild(segment)
        active = self._segments[-1]
        try:
            log_end = self._tail(active)
            active.time_index.check()
        except CorruptIndex:
            self._rebuild(active)
            log_end = self._tail(active)
        try:
            active.transaction_index.entries()
        except CorruptIndex:
            # Only a replay of the segment can tell its transactions.
            self._recovery_point = active.base_offset
            return self._recover()
        active.end_offset = log_end
        self._load_producers(log_end)
        self._recovery_point = log_end
        return log_end

    def _load_producers(self, end: int) -> None:
        """Load the producers as of `end`: from the newest snapshot below, and the heads since."""
        start = self._load_snapshot(end)
        replay_producers(self._producers, self._segments, start, end)

    def _load_snapshot(self, at_most: int) -> int:
        """Load the newest snapshot at or below an offset, and return where it stands."""
        first = self._segments[0].base_offset
        start, entries = self._snapshots.latest(at_most) or (first, [])
        self._producers.load(entries)
        self._snapshot_offset = max(start, first)
        return self._snapshot_offset

    def restore_unreplicated(self, high_watermark: int) -> None:
        """Let the producers wait for the markers above the high watermark that their snapshot
        counted already."""
        restore_unreplicated(
            self._producers, self._snapshots, self._segments, self._snapshot_offset, high_watermark
        )

    def _tail(self, segment: Segment) -> int:
        """Return where the offsets of a sound segment end, near its last index entry."""
        if segment.size_bytes == 0:
            return segment.base_offset
        position = segment.offset_index.lookup(segment.offset_index.last_offset).position
        end_offset = segment.base_offset
        for head in walk_heads(segment.file(), position, segment.size_bytes):
            end_offset = head.next_offset
            position += head.size_bytes
        if position != segment.size_bytes:
            raise CorruptLog(
                f"{segment.path} was closed properly, but it ends in the middle of a batch at byte "
                f"{position}"
            )
        return end_offset

    # -- after a crash -------------------------------------------------------------------------

    def _recover(self) -> int:
        start = self._recovery_start()
        self._epochs.truncate_from_end(start)
        log_end = start
        number = floor(self._segments, start)
        for segment in self._segments[:number]:
            if segment in self._unindexed:
                self._rebuild(segment)
        if number and rebuild_if_broken(self._segments[number - 1], self._interval_bytes):
            # It was closed after its last flush, and the last entry of its time index tore.
            self._segments[number - 1].sync_indexes()
        while number < len(self._segments):
            segment = self._segments[number]
            stored_bytes = segment.size_bytes
            if segment.base_offset >= start:
                owed = encode_snapshot(self._producers.entries())
                self._owed_snapshots[segment.base_offset] = owed
            scan = self._scan(segment, max(start, segment.base_offset), log_end)
            log_end = segment.end_offset = scan.next_offset
            if scan.position < stored_bytes or self._gap_after(number):
                self._cut(number, scan, stored_bytes)
                break
            number += 1
        if log_end < self._recovery_point:
            raise CorruptLog(
                f"{self._path} ends at offset {log_end}, but everything below "
                f"{self._recovery_point} had been synced"
            )
        self._snapshots.remove_above(log_end)
        self._recovery_point = start
        return log_end

    def _recovery_start(self) -> int:
        """Load the newest snapshot at or below the recovery point; return its offset.

        A transaction index torn in the middle cannot be completed from there: then it is the start
        of that segment.
        """
        start = self._load_snapshot(max(self._recovery_point, self._segments[0].base_offset))
        segment = self._segments[floor(self._segments, start)]
        if start > segment.base_offset:
            try:
                segment.transaction_index.entries()
            except CorruptIndex:
                start = segment.base_offset
                self._load_producers(start)
        return start

    def _scan(self, segment: Segment, start: int, end_before: int) -> BatchScan:
        """Walk a segment from `start` on; enter each batch into indexes, epochs and producers.

        An epoch begins where the batch before it ends, as when it was appended; `end_before` is
        where the last one before `start` does.
        """
        stored_bytes = segment.size_bytes
        position = self._position_of(segment, start)
        if position == 0:
            segment.reset_indexes()
        if start == segment.base_offset:
            segment.transaction_index.reset()
        else:
            before = segment.transaction_index.count
            segment.transaction_index.truncate_to(start)
            self.repaired |= segment.transaction_index.count < before
        begin = segment.base_offset if position == 0 else start
        scan = BatchScan(segment.file(), position, stored_bytes, begin)
        # What is not scanned yet does not count, for the time of the newest record either.
        segment.size_bytes = position
        epoch = -1
        for at, batch in scan:
            placed = PlacedBatch(
                batch, batch.base_offset, scan.next_offset - 1, batch.max_timestamp
            )
            segment.note(*placed[1:], at, batch.size_bytes, self._interval_bytes)
            segment.size_bytes = scan.position
            if batch.base_offset >= start:
                if batch.producer_id >= 0:
                    remember_batch(self._producers, segment, placed)
                if batch.leader_epoch != epoch and batch.leader_epoch >= 0:
                    epoch = batch.leader_epoch
                    self._epochs.assign(epoch, end_before)
                end_before = scan.next_offset
        segment.synced_bytes = 0
        self.recovered.scanned_bytes += scan.position - position
        self.repaired |= scan.position > position
        return scan

    def _position_of(self, segment: Segment, start: int) -> int:
        """Return where the scan begins; 0 also when the indexes below cannot be believed."""
        if start == segment.base_offset or segment in self._unindexed:
            return 0
        try:
            segment.offset_index.check()
            segment.time_index.check()
        except CorruptIndex:
            return 0
        before = segment.offset_index.count + segment.time_index.count
        segment.offset_index.truncate_to(start)
        segment.time_index.truncate_to(start)
        self.repaired |= segment.offset_index.count + segment.time_index.count < before
        position = segment.offset_index.lookup(start).position
        end_offset = segment.base_offset
        for head in walk_heads(segment.file(), position, segment.size_bytes):
            if head.base_offset >= start:
                break
            end_offset = head.next_offset
            position += head.size_bytes
            if end_offset >= start:  # what follows cannot be believed, not even its length
                break
        if end_offset < start and not self._config.compacted:
            raise CorruptLog(
                f"{segment.path} ends at offset {end_offset}, but everything below {start} had "
                "been synced"
            )
        return position

    def _gap_after(self, number: int) -> bool:
        if self._config.compacted or number + 1 == len(self._segments):
            return False
        return self._segments[number].end_offset != self._segments[number + 1].base_offset

    def _cut(self, number: int, scan: BatchScan, stored_bytes: int) -> None:
        """End the log where the scan ended."""
        segment = self._segments[number]
        problem = scan.problem or (
            f"It ends at offset {scan.next_offset} and the next segment starts at "
            f"{self._segments[number + 1].base_offset}."
        )
        behind = self._segments[number + 1 :]
        if scan.next_offset < self._recovery_point or len(behind) >= _UNSYNCED_SEGMENTS:
            raise CorruptLog(
                f"{segment.path} is damaged at byte {scan.position}, where records had been synced "
                f"(offset {scan.next_offset}, recovery point {self._recovery_point}): {problem}"
            )
        cut_bytes = stored_bytes - scan.position + sum(each.size_bytes for each in behind)
        for dropped in reversed(behind):
            dropped.remove()
            self._storage.filesystem.sync_directory(self._path)
        file = segment.file()
        file.truncate(scan.position)
        file.sync()
        del self._segments[number + 1 :]
        self.repaired = True
        self.recovered.cut_bytes += cut_bytes
        self.recovered.dropped_segments += len(behind)
        _log.warning(
            "torn_tail_cut",
            segment=str(segment.path),
            end_offset=scan.next_offset,
            cut_bytes=cut_bytes,
            dropped_segments=len(behind),
            reason=problem,
        )
