"""One segment of a partition's log: a file of batches and its three indexes."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import ref

from headrace.log.filesystem import Bytes, File, sync_file
from headrace.log.index.offset_index import OffsetIndex
from headrace.log.index.time_index import TimeIndex
from headrace.log.index.transaction_index import TransactionIndex
from headrace.log.segment.batch_scan import BatchPosition, find_batch
from headrace.log.segment.placed_batch import PlacedBatch
from headrace.log.segment.recent_batches import RECENT_KEPT, RECENT_MAX, no_recent
from headrace.log.segment.room import Room, roll_after_ms
from headrace.log.segment.segment_name import (
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    segment_file_name,
)
from headrace.log.storage import Storage
from headrace.model.offset import NO_OFFSET, NO_TIMESTAMP_MS
from headrace.model.topic_config import LogConfig
from headrace.records.batch import HEADER_BYTES, LOG_OVERHEAD, Batch

_INT_MAX = 2**31 - 1

# A segment asks the pool for its file once per MiB written, so that it counts as used.
_USED_BYTES = 1 << 20

# An entry of an index (12 bytes at most) stands for a batch, which has 61 bytes at least: with
# fewer bytes of log than this for each byte of an index no index can be full.
_LEAST_PER_INDEX_BYTE = 2

# Builds a NamedTuple in half the time its own constructor needs.
_new = tuple.__new__


def _no_file() -> None:
    """Stand in for the weak reference to a file that is not open."""


class Segment:
    """The batches from `base_offset` up to `end_offset`, appended at the end and never changed.

    Invariant: the first `size_bytes` bytes of the file are whole batches, offsets increasing, each
    within 2^31-1 of `base_offset`. Bytes behind them may exist after a failed write; they do not
    count and the next write goes over them.

    Byte format: record batches v2 one after the other (`docs/formats/segment.md`).

    Crash: whatever was not synced may be missing or torn, and the indexes with it. The loader scans
    from the recovery point, cuts, and rebuilds the indexes from there.

    Threads: one appends and truncates, under its log's lock. Any may find and read. A segment that
    left the log is `retired`: a reader that took the file from the pool looks at that flag again,
    for compaction puts another file under the same name. `cuts` counts truncations: what was copied
    of the segment before one is not what it holds. `refused_writes` counts writes that found no
    room, `synced_refusals` those before the last sync: what a later one wrote may come back.
    """

    __slots__ = (
        "_file",
        "_first_timestamp_ms",
        "_recent",
        "_room",
        "_since_index_bytes",
        "_storage",
        "_time_known",
        "base_offset",
        "created_ms",
        "cuts",
        "directory",
        "end_offset",
        "offset_index",
        "offset_of_max_timestamp",
        "path",
        "refused_writes",
        "retired",
        "size_bytes",
        "stage",
        "synced_bytes",
        "synced_refusals",
        "time_index",
        "top_timestamp_ms",
        "transaction_index",
    )

    def __init__(
        self,
        storage: Storage,
        directory: Path,
        base_offset: int,
        *,
        size_bytes: int = 0,
        end_offset: int | None = None,
        new: bool = False,
        stage: str = "",
    ) -> None:
        """Touch nothing on disk.

        Args:
            end_offset: exclusive; the next segment's base when there is one.
            new: the indexes start empty, whatever lies there.
            stage: `.cleaned` or `.swap` while compaction works on it.
        """
        self._storage = storage
        self.directory = directory
        self.base_offset = base_offset
        self.end_offset = base_offset if end_offset is None else end_offset
        self.size_bytes = size_bytes
        self.synced_bytes = 0 if new else size_bytes
        self.stage = stage
        self.retired = False
        self.cuts = 0
        self.refused_writes = self.synced_refusals = 0
        self.created_ms = storage.clock.wall_ms()
        self.path = self._path(LOG)
        files, cache = storage.files, storage.indexes
        self.offset_index = OffsetIndex(
            self._path(OFFSET_INDEX), base_offset, files, cache, new=new
        )
        self.time_index = TimeIndex(self._path(TIME_INDEX), base_offset, files, cache, new=new)
        self.transaction_index = TransactionIndex(
            self._path(TRANSACTION_INDEX), files, cache, new=new
        )
        self._first_timestamp_ms: int | None = None
        self.top_timestamp_ms = NO_TIMESTAMP_MS
        self.offset_of_max_timestamp: int = NO_OFFSET
        self._time_known = new
        self._since_index_bytes = 0
        self._recent = no_recent()
        # Weak: the pool decides how long a file stays open.
        self._file: Callable[[], File | None] = _no_file
        self._room: Room | None = None

    def __repr__(self) -> str:
        return f"<Segment {self.path.name}: {self.base_offset}..{self.end_offset}>"

    def _path(self, suffix: str) -> Path:
        return self.directory / segment_file_name(self.base_offset, suffix, self.stage)

    # -- writing

    def create(self) -> None:
        """Make the file, empty. Its name is durable after the directory is synced."""
        file = self._storage.files.get(self.path, create=True)
        if file.size():
            file.truncate(0)

    def append(
        self, buffers: Sequence[Bytes], placed: Sequence[PlacedBatch], interval_bytes: int
    ) -> None:
        """Write batches and note each one: what compaction does with a segment of its own."""
        self.write(buffers)
        position = self.size_bytes
        for batch, base_offset, last_offset, timestamp_ms in placed:
            size_bytes = LOG_OVERHEAD + batch.length
            self.note(base_offset, last_offset, timestamp_ms, position, size_bytes, interval_bytes)
            position += size_bytes
        self.size_bytes = position

    def write(self, buffers: Sequence[Bytes]) -> None:
        """Put the bytes behind the last batch. They count once they are noted.

        Raises:
            OSError: nothing has changed for readers; bytes that do not count may be in the file.
        """
        file = self._file()
        if file is None:
            file = self._storage.files.get(self.path)
            self._file = ref(file)
        file.pwritev(buffers, self.size_bytes)

    def note(
        self,
        base_offset: int,
        last_offset: int,
        timestamp_ms: int,
        position: int,
        size_bytes: int,
        interval_bytes: int,
    ) -> None:
        """Bring the indexes up to a batch at `position`, which is the last so far.

        The caller moves `size_bytes` when all of a write is noted.
        """
        if not self._time_known:
            self._load_time()
        if timestamp_ms > self.top_timestamp_ms:
            self.top_timestamp_ms = timestamp_ms
            self.offset_of_max_timestamp = last_offset
        if self._since_index_bytes > interval_bytes:
            self.offset_index.append(last_offset, position)
            if self.top_timestamp_ms >= 0:
                self.time_index.maybe_append(self.top_timestamp_ms, self.offset_of_max_timestamp)
            self._since_index_bytes = 0
        self._since_index_bytes += size_bytes
        if position % _USED_BYTES + size_bytes >= _USED_BYTES:
            # Asked for again, the file counts as used, and is not the next one the pool lets go.
            self._file = _no_file
        if position == 0:
            self._first_timestamp_ms = timestamp_ms
        lasts, bases, positions = self._recent
        if len(lasts) >= RECENT_MAX:
            lasts, bases, positions = (
                lasts[RECENT_KEPT:],
                bases[RECENT_KEPT:],
                positions[RECENT_KEPT:],
            )
            self._recent = lasts, bases, positions
        # A reader in another thread searches `lasts`, so the others have the row before.
        positions.append(position)
        bases.append(base_offset)
        lasts.append(last_offset)
        self.end_offset = last_offset + 1

    def should_roll(
        self, config: LogConfig, size_bytes: int, last_offset: int, timestamp_ms: int
    ) -> bool:
        """Return whether a batch of this size, last offset and time belongs into a new segment."""
        room = self._room
        if (
            room is not None
            and room[0] is config
            and self.size_bytes + size_bytes <= room[1]
            and 0 <= timestamp_ms <= room[2]
            and last_offset <= room[3]
        ):
            return False
        if self.size_bytes == 0:
            return not self.can_hold(last_offset)
        roll_ms = roll_after_ms(config, self.path)
        indexable_bytes = self.indexable_bytes(config)
        if (
            self.size_bytes + size_bytes > config.segment_bytes
            or self._waited_ms(timestamp_ms) > roll_ms
            or self.size_bytes >= indexable_bytes
            or last_offset - self.base_offset > _INT_MAX
        ):
            return True
        first_ms = self.first_timestamp_ms
        self._room = Room(
            config,
            min(config.segment_bytes, indexable_bytes),
            first_ms + roll_ms if first_ms >= 0 else NO_TIMESTAMP_MS,
            self.base_offset + _INT_MAX,
        )
        return False

    def indexable_bytes(self, config: LogConfig) -> int:
        """Return up to which size no index is full, as far as can be said without counting entries
        again; never less than the present size unless one is full now.

        An index gets at most one entry for a whole index.interval.bytes of log.
        """
        index_bytes = config.segment_index_bytes
        unlooked = index_bytes * _LEAST_PER_INDEX_BYTE
        if self.size_bytes < unlooked:
            return unlooked
        free = min(
            self.offset_index.free_entries(index_bytes), self.time_index.free_entries(index_bytes)
        )
        if free <= 0:
            return self.size_bytes
        return self.size_bytes + max(1, (free - 1) * config.index_interval_bytes)

    def can_hold(self, last_offset: int) -> bool:
        """Return whether an index entry can hold `last_offset`: 31 bits over the base offset."""
        return last_offset - self.base_offset <= _INT_MAX

    def _waited_ms(self, timestamp_ms: int) -> int:
        """Return how old the first batch is when the next one comes, by their own clocks (as Kafka
        does): copying an old topic rolls as the original did.
        """
        first_ms = self.first_timestamp_ms
        if first_ms >= 0 and timestamp_ms >= 0:
            return timestamp_ms - first_ms
        return self._storage.clock.wall_ms() - self.created_ms

    def close_indexes(self) -> bool:
        """Add the last entry of the time index, because no batch follows, and drop what is known of
        the newest batches.

        Return whether the time index grew.
        """
        self._recent = no_recent()
        if self.size_bytes == 0 or self.max_timestamp_ms < 0:
            return False
        return self.time_index.maybe_append(self.top_timestamp_ms, self.offset_of_max_timestamp)

    @property
    def owes_cut(self) -> bool:
        """Whether bytes that were cut off may come back with a crash."""
        return self.synced_refusals != self.refused_writes

    @property
    def is_unsynced(self) -> bool:
        return self.synced_bytes < self.size_bytes or self.owes_cut

    def sync(self) -> None:
        """Make the batches durable. The owner moves `synced_bytes`: it knows of truncations."""
        sync_file(self.file())

    def sync_indexes(self) -> None:
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.flush()

    def truncate_to(self, offset: int) -> None:
        """Drop the batches that reach to `offset` or further; durable on return.

        With batches [0..9][10..19], truncating to 15 leaves [0..9]: a batch goes whole.
        """
        first_dropped = self.find(offset)
        if first_dropped is None:
            return
        self.cuts += 1
        file = self.file()
        file.truncate(first_dropped.position)
        sync_file(file)
        self.size_bytes = self.synced_bytes = first_dropped.position
        self.end_offset = first_dropped.base_offset
        self.offset_index.truncate_to(first_dropped.base_offset)
        self.time_index.truncate_to(first_dropped.base_offset)
        self.transaction_index.truncate_to(first_dropped.base_offset)
        # The recovery point stands here now: recovery will not check these indexes after a crash.
        self.sync_indexes()
        self._since_index_bytes = 0
        self._recent = no_recent()
        self.reload_time()

    # -- reading

    def file(self) -> File:
        """Return the file, from the pool.

        Raises:
            FileNotFoundError: the segment was retired meanwhile; look for it in the log again.
        """
        try:
            file = self._storage.files.get(self.path)
        except FileNotFoundError:
            # It has its new name already. Past the pool, which may know another file by it.
            file = self._storage.filesystem.open(self._path(LOG))
        if self.retired:
            raise FileNotFoundError(f"{self.path.name} left the log")
        return file

    def is_recent(self, offset: int) -> bool:
        """Return whether `find` knows the place of this offset without reading a file."""
        lasts, bases, _ = self._recent
        return bool(lasts) and offset >= bases[0]

    def find(self, offset: int) -> BatchPosition | None:
        """Find the first batch that reaches to `offset` or further; None when none does."""
        size = self.size_bytes
        lasts, bases, positions = self._recent
        if lasts and offset >= bases[0]:
            row = bisect_left(lasts, offset)
            if row == len(lasts):
                return None
            position = positions[row]
            end = positions[row + 1] if row + 1 < len(lasts) else size
            return _new(BatchPosition, (position, end - position, bases[row], lasts[row]))
        if size == 0:
            return None
        start = self.offset_index.lookup(offset).position
        return find_batch(self.file(), offset, start, size)

    def bound_at(self, position: int) -> int:
        """Return an offset above all in the batches that begin before byte `position`, near to
        the highest of them: at most an index interval further."""
        lasts, bases, positions = self._recent
        if lasts and position > positions[0]:
            row = bisect_left(positions, position)
            # The last offsets are extended last, so that a row of them is whole.
            return bases[row] if row < len(lasts) else self.end_offset
        bound = self.offset_index.bound_at(position)
        if bound is not None:
            return bound
        return bases[0] if lasts else self.end_offset

    # -- time

    @property
    def first_timestamp_ms(self) -> int:
        """The newest record of the first batch, -1 without one."""
        if self._first_timestamp_ms is None:
            if self.size_bytes == 0:
                return NO_TIMESTAMP_MS
            self._first_timestamp_ms = Batch(self.file().pread(HEADER_BYTES, 0)).max_timestamp
        return self._first_timestamp_ms

    @first_timestamp_ms.setter
    def first_timestamp_ms(self, timestamp_ms: int) -> None:
        self._first_timestamp_ms = timestamp_ms

    @property
    def max_timestamp_ms(self) -> int:
        """The newest record; -1 when none has a time. May read the time index and the tail."""
        if not self._time_known:
            self._load_time()
        return self.top_timestamp_ms

    @property
    def modified_ms(self) -> int:
        """When its file was last written to: its age, if no record has a time."""
        return self._storage.filesystem.modified_ms(self.path)

    def reset_indexes(self) -> None:
        """Empty the offset and the time index: `note` every batch again, from the first on."""
        self.offset_index.reset()
        self.time_index.reset()
        self._since_index_bytes = 0
        self._recent = no_recent()
        self.reload_time()
        self._time_known = True

    def reload_time(self) -> None:
        self._room = None
        self._time_known = False
        self.top_timestamp_ms = NO_TIMESTAMP_MS
        self.offset_of_max_timestamp = NO_OFFSET
        self._first_timestamp_ms = None

    def _load_time(self) -> None:
        """Load the newest timestamp, from the last entry of the time index and the heads behind."""
        entry = self.time_index.last_entry
        top, top_offset = entry.timestamp_ms, int(entry.offset)
        position = self.offset_index.lookup(self.offset_index.last_offset).position
        file = self.file()
        while position + HEADER_BYTES <= self.size_bytes:
            batch = Batch(file.pread(HEADER_BYTES, position))
            if batch.max_timestamp > top:
                top, top_offset = batch.max_timestamp, batch.last_offset
            position += batch.size_bytes
        self.top_timestamp_ms, self.offset_of_max_timestamp = top, top_offset
        self._time_known = True

    # -- names

    def rename(self, stage: str) -> None:
        """Give all files the suffix of another stage of their life. The owner syncs the directory.

        The `.log` comes last when the segment is being put in place and first when it is taken
        away, so that a `.log` without its indexes is never found under its final name.
        """
        log_first, self.stage = not self.stage, stage
        if log_first:
            self._rename_log()
        self.offset_index.rename(self._path(OFFSET_INDEX))
        self.time_index.rename(self._path(TIME_INDEX))
        self.transaction_index.rename(self._path(TRANSACTION_INDEX))
        if not log_first:
            self._rename_log()

    def _rename_log(self) -> None:
        """Give the `.log` the name of the present stage; until `path` has it `file` tries both."""
        old, self._file = self.path, _no_file
        new = self._path(LOG)
        self._storage.filesystem.replace(old, new)
        self._storage.files.forget(old)
        self._storage.files.forget(new)
        self.path = new

    def move(self, directory: Path) -> None:
        """Go on in `directory`, because the directory of all files was renamed."""
        self._storage.files.forget(self.path)
        self.directory = directory
        self.path = self._path(LOG)
        self._file = _no_file
        self.offset_index.move(self._path(OFFSET_INDEX))
        self.time_index.move(self._path(TIME_INDEX))
        self.transaction_index.move(self._path(TRANSACTION_INDEX))

    def remove(self) -> None:
        """Remove all files; those that are gone already are no error."""
        filesystem = self._storage.filesystem
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            path = self._path(suffix)
            self._storage.files.forget(path)
            if filesystem.exists(path):
                filesystem.remove(path)
        self.discard()

    def close(self) -> None:
        """Write what the indexes hold back and let go of memory and descriptors."""
        self._file = _no_file
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.close()
        self._storage.files.forget(self.path)

    def discard(self) -> None:
        """Let go without writing."""
        self._file = _no_file
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.discard()
        self._storage.files.forget(self.path)
