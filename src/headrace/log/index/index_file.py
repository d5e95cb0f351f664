"""What the offset index and the time index have in common: a file of fixed-size entries.

Kafka reserves 10 MiB for each index of an active segment and maps it. With 10,000 partitions that
is 20,000 maps and descriptors and 200 GB of address space, so here an index is a plain file:

- Opening costs nothing: no read, no descriptor, not even a look whether the file is there.
- The first lookup reads the whole file into two columns (`array`s), and `bisect` does the rest in
  under a microsecond. `IndexCache` bounds all columns together, `FilePool` all descriptors.
- New entries wait in memory, at most `PENDING_ENTRIES`, and are written together.
"""

import struct
from array import array
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

from headrace.log.file_pool import FilePool, rename_file
from headrace.log.filesystem import has_no_room, sync_file
from headrace.log.index.index_cache import IndexCache
from headrace.model.error import CorruptIndex

# 64 entries are at least 256 KiB of log with the default index.interval.bytes: one small write for
# that much, and half a KiB in memory for each partition being written.
PENDING_ENTRIES = 64

Columns: TypeAlias = "tuple[array[int], array[int]]"


class EntryLayout(NamedTuple):
    """How an entry lies on disk, and how a whole file of them becomes two columns."""

    kind: str
    entry: struct.Struct
    typecodes: tuple[str, str]
    columns: Callable[[bytes], Columns]


class IndexFile:
    """Entries of two integers each, appended at the end, cut only from the end.

    Invariant: entries = what the file holds + what is pending. The file never holds part of an
    entry that was written by us; a crash may leave one, and then the index is rebuilt.

    Crash: nothing here is checksummed or synced before `flush`. The owner calls `flush` before it
    moves its recovery point, and rebuilds every index past that point. An entry that points past
    the end of the log after a crash is therefore never used.

    Threads: one appends and truncates; any may look up. Columns are only ever extended, the second
    column first, or replaced as a pair: a reader works on the pair it took.
    """

    __slots__ = (
        "__weakref__",
        "_cache",
        "_columns",
        "_count",
        "_files",
        "_full_bytes",
        "_last",
        "_layout",
        "_lock",
        "_pack",
        "_pending",
        "_written",
        "path",
        "touched",
    )

    def __init__(
        self, path: Path, layout: EntryLayout, files: FilePool, cache: IndexCache, *, new: bool
    ) -> None:
        """With `new` the first write cuts away whatever a crash left at `path`."""
        self.path = path
        self.touched = False
        self._layout = layout
        self._pack = layout.entry.pack
        self._full_bytes = PENDING_ENTRIES * layout.entry.size
        self._files = files
        self._cache = cache
        self._lock = Lock()
        self._pending = bytearray()
        self._columns: Columns | None = None
        self._last: tuple[int, int] | None = None
        # -1: the file was not looked at yet.
        self._count = -1
        # Bytes in the file that count; -1: the file is to be created, or emptied.
        self._written = -1
        if new:
            self._count = 0
            self._columns = self._empty()

    @property
    def count(self) -> int:
        if self._count < 0:
            self._inspect()
        return self._count

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry as it is stored, or None."""
        if self._count < 0:
            self._inspect()
        return self._last

    def columns(self) -> Columns:
        """Return the first and the second integers of all entries. The first column may be one
        shorter for the moment in which an entry is being appended: search it, then use the same row
        of the other.

        Raises:
            CorruptIndex: the file is not a whole number of entries, or cannot be in order.
        """
        self.touched = True
        return self._columns or self._load()

    def append(self, first: int, second: int) -> None:
        if self._count < 0:
            self._inspect()
        with self._lock:
            pending = self._pending
            pending += self._pack(first, second)
            columns = self._columns
            if columns is not None:
                columns[1].append(second)
                columns[0].append(first)
            self._count += 1
            self._last = (first, second)
        if len(pending) >= self._full_bytes:
            try:
                self.write()
            except OSError as error:
                # The entry waits in memory for the next write: an append does not fail for it.
                if not has_no_room(error):
                    raise

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count >= self.count:
            return
        firsts, seconds = self.columns()
        kept = (firsts[:count], seconds[:count])
        size = count * self._layout.entry.size
        with self._lock:
            if self._written > size:
                self._files.get(self.path).truncate(size)
                self._written = size
                self._pending.clear()
            else:
                del self._pending[size - max(self._written, 0) :]
            self._count = count
            self._last = (kept[0][-1], kept[1][-1]) if count else None
            self._columns = kept
        self._account()

    def reset(self) -> None:
        """Drop all entries, also ones that cannot be read: a rebuild begins here."""
        with self._lock:
            self._pending.clear()
            self._count = 0
            self._written = -1
            self._last = None
            self._columns = self._empty()
        self._account()

    def write(self) -> None:
        """Hand what is pending to the operating system. Creates the file."""
        with self._lock:
            if self._written >= 0 and not self._pending:
                return
            file = self._files.get(self.path, create=True)
            if self._written < 0:
                file.truncate(0)
                self._written = 0
            if self._pending:
                try:
                    self._written += file.pwritev((self._pending,), self._written)
                except OSError as error:
                    if has_no_room(error):
                        # Part of it may be there: no entry may follow what counts.
                        file.truncate(self._written)
                    raise
                self._pending = bytearray()
        self._account()

    def flush(self) -> None:
        """Return when every entry is on disk. The owner syncs the directory if the file is new.

        The sync itself is outside the lock: appends go on while the disk works.
        """
        if self._count < 0:
            return
        self.write()
        with self._lock:
            file = self._files.get(self.path)
        sync_file(file)

    def check(self) -> None:
        """Read everything and make sure that it can be an index.

        Raises:
            CorruptIndex: rebuild it (`reset`, then append).
        """
        firsts, seconds = self.columns()
        for name, column in zip(("key", "value"), (firsts, seconds), strict=True):
            previous = -1
            for row, value in enumerate(column):
                if value <= previous:
                    raise self._corrupt(f"the {name} of entry {row} is {value}, after {previous}")
                previous = value

    def rename(self, path: Path) -> None:
        """Give the file, if there is one, the name `path`. No reader finds neither name."""
        with self._lock:
            rename_file(self._files, self.path, path)
            self.path = path

    def move(self, path: Path) -> None:
        """Go on at `path`, because the owner renamed the directory."""
        with self._lock:
            self._files.forget(self.path)
            self.path = path

    def unload(self) -> None:
        """Drop the columns for the cache. What is pending stays: it is bounded by itself."""
        self._columns = None

    def close(self) -> None:
        """Write what is pending, without waiting for the disk, and let go of memory and file."""
        if self._count >= 0:
            self.write()
        self.discard()

    def discard(self) -> None:
        """Let go of memory and file without writing: the file is about to be removed."""
        self._cache.release(self)
        self._columns = None
        self._files.forget(self.path)

    def _empty(self) -> Columns:
        first, second = self._layout.typecodes
        return array(first), array(second)

    def _inspect(self) -> None:
        """Read size and last entry of the file as it was found: all that an append needs."""
        with self._lock:
            if self._count >= 0:
                return
            entry = self._layout.entry
            try:
                file = self._files.get(self.path)
            except FileNotFoundError:
                raise self._corrupt("it is missing") from None
            size = file.size()
            if size % entry.size:
                raise self._corrupt(f"its {size} bytes are not a multiple of {entry.size}")
            if size:
                first, second = entry.unpack(file.pread(entry.size, size - entry.size))
                self._last = (first, second)
            self._written = size
            self._count = size // entry.size

    def _load(self) -> Columns:
        self._inspect()
        with self._lock:
            columns = self._columns
            if columns is None:
                columns = self._columns = self._read()
        self._account()
        return columns

    def _read(self) -> Columns:
        size = max(self._written, 0)
        stored = self._files.get(self.path).pread(size, 0) if size else b""
        if len(stored) != size:
            raise self._corrupt(f"it holds {len(stored)} bytes where {size} were written")
        columns = self._layout.columns(stored + self._pending)
        for column in columns:
            if column and (column[0] < 0 or column[-1] < column[0]):
                raise self._corrupt(f"it begins with {column[0]} and ends with {column[-1]}")
        return columns

    def _account(self) -> None:
        if self._columns is None:
            return
        size_bytes = self._count * self._layout.entry.size - len(self._pending)
        if size_bytes > 0:
            self._cache.hold(self, size_bytes)
        else:
            self._cache.release(self)

    def _corrupt(self, what: str) -> CorruptIndex:
        return CorruptIndex(f"{self._layout.kind} {self.path} is corrupt: {what}")
