"""A copy of a log's files in another directory, kept in step until the log goes on there.

Theory of operation. The copy has the same segments as the log, byte for byte. Each round compares
the two lists: a segment that has left the log (retention, compaction, truncation), or that was cut,
is dropped from the copy; what is new or has grown is copied. So nothing that changes a log needs to
know of its copy. What memory knows of the log, its offsets, epochs and producers, is not copied: it
is the same for the same records, and the log keeps it when it goes on with the other files.

Rule 1: the log's lock is held for the last few KiB and the exchange of references only. Appends go
on while bytes are copied and files are synced; what they added meanwhile is copied again and again
without a sync, until little enough is left.
Rule 2: what was durable in the log is durable in the copy before the log goes on there, and no sync
ends between that moment and the last rename (`sync_lock`).
Rule 3: an error of the copy's disk is an error of that directory alone; a full one leaves the copy
as it is, for another try.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from headrace.log.filesystem import sync_file
from headrace.log.partition.leader_epochs import FILE_NAME as EPOCHS_NAME
from headrace.log.partition.log_flusher import LogFlusher
from headrace.log.partition.log_state import LogState
from headrace.log.partition.segment_roller import SegmentRoller
from headrace.log.producer.producer_snapshot import snapshot_path
from headrace.log.segment.index_rebuild import rebuild_indexes
from headrace.log.segment.placed_batch import PlacedBatch
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_name import (
    LOG,
    OFFSET_INDEX,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TRANSACTION_INDEX,
    segment_file_name,
)
from headrace.log.storage import Storage
from headrace.model.error import CorruptIndex, DiskFull, StorageError
from headrace.model.ids import TopicPartition
from headrace.records.batch import HEADER_BYTES, Batch

# What is copied while the log's lock is held: a thousand of the smallest batches, some ms at most.
# A log that grows faster gets twice as much with each attempt, for the move has to end.
_LAST_BYTES = 64 * 1024
_MOST_LAST_BYTES = 4 * 1024 * 1024
_NOTED_BYTES = 256 * 1024
# A log that rolls, or grows faster than its end is copied, is left for a later try.
_TRIES = 10
_CATCH_UPS = 10
# A larger active segment is rolled: indexes of a closed one are copied, not made again. The next
# one may grow so many times as large, so that tries without end do not leave small segments.
_LARGEST_NOTED_BYTES = 1024 * 1024
_ROLL_GROWTH = 8
_INDEXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

Answer = TypeVar("Answer")


class Destination(Protocol):
    """The directory that a log moves to, and the one it leaves, as the exchange needs them."""

    def promote(self, *, log_start: int, recovery_point: int, high_watermark: int) -> Path:
        """Save the offsets for the next start and give the copy its final name, durably."""

    def demote(self) -> Path:
        """Give the copy its former name again: the exchange has not taken place."""

    def exchanged(self) -> None:
        """Serve the log from its new directory, and rename what was left, durably."""

    def rolled(self, partition: TopicPartition) -> object:
        """Flush a segment that was rolled, later."""


@dataclass(slots=True, eq=False)
class _Copy:
    """What is copied of one segment.

    Attributes:
        cuts: those that the segment had had before.
        complete: no byte follows, the indexes are there, and all of it is durable.
        noted: the active segment of the copy, with its indexes in memory.
    """

    segment: Segment
    cuts: int
    size_bytes: int = 0
    complete: bool = False
    noted: Segment | None = None


class LogMirror:
    """Copies the files of one log into a directory of another `Storage`, and lets the log go on
    there (`exchange`).

    Crash: the copy counts for nothing until it has its final name; then both it and the log are
    whole, and the one that reaches further is taken (`half_move`).

    Threads: one at a time.
    """

    def __init__(self, log: LogState, storage: Storage, path: Path) -> None:
        """`path` is an empty directory."""
        self._log = log
        self._storage = storage
        self._path = path
        self._flusher = LogFlusher(log)
        self._roller = SegmentRoller(log)
        self._copies: dict[Segment, _Copy] = {}
        self._snapshots: set[int] = set()
        self._seen: tuple[Segment, ...] = ()
        self._truncations = log.truncations
        self._roll_above_bytes = _LARGEST_NOTED_BYTES
        self._last_bytes = _LAST_BYTES

    @property
    def size_bytes(self) -> int:
        return sum([each.size_bytes for each in list(self._copies.values())])

    @property
    def behind_bytes(self) -> int:
        """How many bytes of the log are not copied; what was cut since does not count as copied."""
        behind = 0
        for segment in self._log.segments.all:
            copied = self._copies.get(segment)
            if copied is None or copied.cuts != segment.cuts:
                behind += segment.size_bytes
            else:
                behind += max(0, segment.size_bytes - copied.size_bytes)
        return behind

    @property
    def end_offset(self) -> int:
        """About where the copy ends; exactly there when nothing is left to copy."""
        end = self._log.tip.end_offset
        for segment in self._log.segments.all:
            copy = self._copies.get(segment)
            copied = 0 if copy is None else copy.size_bytes
            if copied < segment.size_bytes:
                return min(_bound(segment, copied), end - 1)
        return end

    # -- while the log is used

    def copy(self, max_bytes: int) -> int:
        """Copy the next bytes, oldest first; return how many, 0 when there are none for now."""
        self._log.check_open()
        segments = self._follow()
        for segment in segments:
            copied = self._copies[segment]
            missing = segment.size_bytes - copied.size_bytes
            if missing > 0:
                return self._copy_bytes(copied, min(missing, max_bytes))
            if segment is not segments[-1] and not copied.complete:
                self._complete(copied)
        self._copy_snapshots()
        return 0

    def _follow(self) -> tuple[Segment, ...]:
        """Have a copy for each segment of the log, and for no other; return those segments.

        They, their cuts and the count of truncations are looked at under the log's lock, which a
        truncation holds from its count to its last cut. So a copy from before a cut never
        looks like one from after it, and bytes read while a segment is cut belong to a copy that
        the next call drops.
        """
        log = self._log
        with log.lock:
            segments, truncations = log.segments.all, log.truncations
            if segments is self._seen and truncations == self._truncations:
                return segments
            cuts = {segment: segment.cuts for segment in segments}
        with self._storage.io(f"drop copied segments of {log.partition}"):
            for segment, copied in list(self._copies.items()):
                if cuts.get(segment) != copied.cuts:
                    self._drop(copied)
                    del self._copies[segment]
            if truncations != self._truncations:
                # The same offsets may have got other records.
                self._drop_snapshots(set())
        for segment, count in cuts.items():
            if segment not in self._copies:
                self._copies[segment] = _Copy(segment, count)
        self._seen, self._truncations = segments, truncations
        return segments

    def _drop(self, copied: _Copy) -> None:
        if copied.noted is not None:
            copied.noted.discard()
        for suffix in SEGMENT_SUFFIXES:
            self._remove(self._path / segment_file_name(copied.segment.base_offset, suffix))

    def _remove(self, path: Path) -> None:
        self._storage.files.forget(path)
        if self._storage.filesystem.exists(path):
            self._storage.filesystem.remove(path)

    def _copy_bytes(self, copied: _Copy, size_bytes: int) -> int:
        segment, position = copied.segment, copied.size_bytes
        data = self._from_log(lambda: segment.file().pread(size_bytes, position))
        if data is None or len(data) < size_bytes:
            return 0  # it is leaving the log, or was cut: the next call sees to it
        if copied.noted is not None:
            # Its indexes will be those of the log, which has rolled it.
            copied.noted.discard()
            copied.noted = None
        path = self._path / segment_file_name(segment.base_offset, LOG)
        with self._storage.io(f"copy {self._log.partition}"):
            self._storage.files.get(path, create=True).pwritev([data], position)
        copied.size_bytes += size_bytes
        copied.complete = False  # a truncation may have made it the active one again
        return size_bytes

    def _complete(self, copied: _Copy) -> None:
        """Copy the indexes of a segment that does not grow any more, and make it durable."""
        segment = copied.segment
        filesystem = self._log.storage.filesystem

        def indexes() -> dict[str, bytes]:
            segment.sync_indexes()
            paths = {
                suffix: segment.directory
                / segment_file_name(segment.base_offset, suffix, segment.stage)
                for suffix in _INDEXES
            }
            return {
                suffix: filesystem.read_bytes(path)
                for suffix, path in paths.items()
                if filesystem.exists(path)
            }

        rebuild = False
        try:
            found = self._from_log(indexes)
        except DiskFull:
            found, rebuild = {}, True  # what they hold back cannot be written there
        if found is None or segment.retired:
            return
        if copied.noted is not None:
            copied.noted.discard()
            copied.noted = None
        with self._storage.io(f"copy {self._log.partition}"):
            files = self._storage.files
            log_path = self._path / segment_file_name(segment.base_offset, LOG)
            sync_file(files.get(log_path, create=True))
            files.forget(log_path)
            for suffix in _INDEXES:
                path = self._path / segment_file_name(segment.base_offset, suffix)
                self._remove(path)
                if suffix in found:
                    self._write(path, found[suffix])
            if rebuild:
                self._rebuild(segment)
        copied.complete = True

    def _rebuild(self, segment: Segment) -> None:
        made = self._finished(segment, new=True)
        rebuild_indexes(made, self._log.config.index_interval_bytes)
        for entry in segment.transaction_index.entries():
            made.transaction_index.append(entry)
        made.sync_indexes()
        made.discard()

    def _write(self, path: Path, content: bytes) -> None:
        file = self._storage.filesystem.open(path, create=True)
        try:
            file.truncate(0)
            if content:
                file.pwritev([content], 0)
            sync_file(file)
        finally:
            file.close()

    def _copy_snapshots(self) -> None:
        log = self._log
        with log.snapshot_lock:
            offsets = set(log.snapshots.offsets)
        with self._storage.io(f"copy {log.partition}"):
            self._drop_snapshots(offsets)
        for offset in sorted(offsets - self._snapshots):
            source = snapshot_path(log.path, offset)
            content = self._from_log(
                lambda source=source: log.storage.filesystem.read_bytes(source)  # type: ignore[misc]
            )
            if content is not None:
                with self._storage.io(f"copy {log.partition}"):
                    self._write(snapshot_path(self._path, offset), content)
                self._snapshots.add(offset)

    def _drop_snapshots(self, kept: set[int]) -> None:
        for offset in self._snapshots - kept:
            self._remove(snapshot_path(self._path, offset))
        self._snapshots &= kept

    def _from_log(self, read: Callable[[], Answer]) -> Answer | None:
        """Read something of the log; None when it is leaving the log at this moment."""
        with self._log.storage.io(f"read {self._log.partition}"):
            try:
                return read()
            except FileNotFoundError:
                return None

    # -- the exchange

    def exchange(self, destination: Destination) -> bool:
        """Copy what is left, and let the log go on with the copy.

        Returns:
            False when the log grew too fast: nothing has changed, try again.

        Raises:
            StorageError: one of the two directories has failed, or is full; nothing has changed.
        """
        log, future = self._log, self._path
        exchanged = False
        with log.structure_lock:
            log.check_open()
            try:
                for _ in range(_TRIES):
                    self._seal()
                    with log.flush_lock, log.sync_lock:
                        left = self._try_exchange(destination)
                        if left:
                            exchanged = True
                            destination.exchanged()
                            break
            finally:
                if not exchanged and self._path != future:
                    self._rename(destination.demote())
        if exchanged:
            for segment in left:
                segment.discard()
        return exchanged

    def _seal(self) -> None:
        """Let the active segment be a small one, and bring the copies of all others to their end.
        Nothing but appends can change the log now."""
        log = self._log
        with suppress(DiskFull):  # often the very reason for the move
            if log.tip.segment.size_bytes > self._roll_above_bytes:
                self._roller.roll()
                self._roll_above_bytes *= _ROLL_GROWTH
            self._flusher.flush()
        for segment in self._follow()[:-1]:
            copied = self._copies[segment]
            while copied.size_bytes < segment.size_bytes:
                missing = segment.size_bytes - copied.size_bytes
                if not self._copy_bytes(copied, min(missing, _LARGEST_NOTED_BYTES)):
                    raise self._missing(segment)
            if not copied.complete:
                self._complete(copied)
                if not copied.complete:
                    raise self._missing(segment)
        self._copy_snapshots()

    def _missing(self, segment: Segment) -> StorageError:
        return self._log.storage.fail(StorageError(f"{segment.path} is missing, or cut short"))

    def _is_complete(self, segment: Segment) -> bool:
        copied = self._copies.get(segment)
        return copied is not None and copied.complete

    def _try_exchange(self, destination: Destination) -> tuple[Segment, ...]:
        """Return the segments that the log has left; none when it has grown too much meanwhile."""
        log, storage = self._log, self._storage
        with log.lock:
            sealed, active = log.segments.all[:-1], log.tip.segment
            size_bytes, end = log.tip.size_bytes, log.tip.end_offset
        if not all(self._is_complete(each) for each in sealed):
            return ()
        noted = self._active_copy(active)
        self._note(active, noted, size_bytes, end)
        with storage.io(f"move {log.partition}"):
            sync_file(noted.file())
            noted.synced_bytes = noted.size_bytes
            log.epochs.copy_to(storage.filesystem, self._path / EPOCHS_NAME)
            storage.filesystem.sync_directory(self._path)
        final = destination.promote(
            log_start=log.log_start,
            recovery_point=min(log.recovery_point, active.base_offset),
            high_watermark=log.high_watermark,
        )
        self._rename(final)
        copies = [self._finished(each) for each in sealed]
        for _ in range(_CATCH_UPS):
            with log.lock:
                tip = log.tip
                if tip.segment is not active:
                    return ()
                if tip.size_bytes - noted.size_bytes <= self._last_bytes:
                    self._note(active, noted, tip.size_bytes, tip.end_offset)
                    noted.created_ms = active.created_ms
                    return log.move(
                        storage,
                        final,
                        [*copies, noted],
                        sorted(self._snapshots),
                        synced=end,
                        on_roll=destination.rolled,
                    )
            # It grew while the disk worked. Nothing of that was promised (rule 2), so nothing is
            # synced again, and this takes less time than what it makes up for.
            self._note(active, noted, tip.size_bytes, tip.end_offset)
            self._last_bytes = min(2 * self._last_bytes, _MOST_LAST_BYTES)
        return ()

    def _active_copy(self, active: Segment) -> Segment:
        copied = self._copies.get(active)
        if copied is not None and copied.noted is not None:
            return copied.noted
        # Nothing counts as copied from here on: the disk may be full before the new file is there.
        fresh = self._copies[active] = _Copy(active, active.cuts)
        with self._storage.io(f"move {self._log.partition}"):
            if copied is not None:
                self._drop(copied)
            noted = Segment(self._storage, self._path, active.base_offset, new=True)
            noted.create()
        fresh.noted = noted
        return noted

    def _note(self, active: Segment, noted: Segment, size_bytes: int, end: int) -> None:
        """Bring the copy of the active segment, and its indexes, up to a size and a log end."""
        log = self._log
        interval_bytes = log.config.index_interval_bytes
        while noted.size_bytes < size_bytes:
            with log.storage.io(f"read {log.partition}"):
                position = noted.size_bytes
                wanted = min(_NOTED_BYTES, size_bytes - position)
                data = active.file().pread(wanted, position)
                first = Batch(memoryview(data)).size_bytes
                if first > len(data):
                    data = active.file().pread(first, position)
            placed, used = _placed(memoryview(data))
            with self._storage.io(f"move {log.partition}"):
                noted.append([memoryview(data)[:used]], placed, interval_bytes)
        noted.end_offset = end
        entries = active.transaction_index.entries()
        with self._storage.io(f"move {log.partition}"):
            for entry in entries[noted.transaction_index.count :]:
                noted.transaction_index.append(entry)
        self._copies[active].size_bytes = noted.size_bytes

    def _finished(self, segment: Segment, *, new: bool = False) -> Segment:
        copied = Segment(
            self._storage,
            self._path,
            segment.base_offset,
            size_bytes=segment.size_bytes,
            end_offset=segment.end_offset,
            new=new,
        )
        copied.created_ms = segment.created_ms
        return copied

    def _rename(self, path: Path) -> None:
        if path == self._path:
            return
        self._storage.files.forget_directory(self._path)
        self._path = path
        for copied in self._copies.values():
            if copied.noted is not None:
                copied.noted.move(path)


def _bound(segment: Segment, copied_bytes: int) -> int:
    """Return about which offset the first bytes of a segment reach."""
    if copied_bytes:
        try:
            return segment.bound_at(copied_bytes)
        except (OSError, CorruptIndex):
            pass  # it is leaving the log
    return segment.base_offset


def _placed(data: memoryview) -> tuple[list[PlacedBatch], int]:
    """Return the whole batches at the start of `data`, and how many bytes they have."""
    placed: list[PlacedBatch] = []
    at = 0
    while at + HEADER_BYTES <= len(data):
        batch = Batch(data, at)
        if at + batch.size_bytes > len(data):
            break
        placed.append(PlacedBatch(batch, batch.base_offset, batch.last_offset, batch.max_timestamp))
        at += batch.size_bytes
    return placed, at
