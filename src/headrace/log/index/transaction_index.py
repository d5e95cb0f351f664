"""`.txnindex`: the aborted transactions whose markers lie in a segment."""

import struct
from bisect import bisect_left
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from headrace.log.file_pool import FilePool, rename_file
from headrace.log.filesystem import has_no_room, sync_file
from headrace.log.index.index_cache import IndexCache
from headrace.model.error import CorruptIndex, InvalidArgument

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0
# What an entry costs in memory: a tuple and the integers in it.
_LOADED_ENTRY_BYTES = 224
_LAST_OFFSET = attrgetter("last_offset")


class AbortedTransactionEntry(NamedTuple):
    """One aborted transaction.

    Attributes:
        first_offset: of its first record in this partition, perhaps in an earlier segment.
        last_offset: of its abort marker.
        last_stable_offset: of the partition, right after the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CollectedTransactions(NamedTuple):
    """Transactions that overlap a range; `complete` when later segments cannot hold more."""

    aborted: list[AbortedTransactionEntry]
    complete: bool


class TransactionIndex:
    """The aborted transactions of one segment, in the order of their markers.

    Invariant: `last_offset` increases strictly; `last_stable_offset` never decreases. A transaction
    stands in the index of the segment that holds its marker, which may be a later one than the
    segment of its records, so a reader goes on through the following segments until `complete`.

    Byte format (Kafka's, version 0): 34-byte entries, int16 version, int64 producer id, int64 first
    offset, int64 last offset, int64 last stable offset, big-endian. The file exists only when there
    is an entry. Not checksummed: after a crash it is rebuilt from the segment and the producer
    snapshot that precedes it.

    Threads: one appends, truncates and flushes; any may collect.
    """

    __slots__ = (
        "_cache",
        "_count",
        "_entries",
        "_files",
        "_lock",
        "_stale",
        "_unwritten",
        "path",
        "touched",
    )

    def __init__(
        self, path: Path, files: FilePool, cache: IndexCache, *, new: bool = False
    ) -> None:
        """Touch nothing on disk. With `new` start empty, whatever a crash left at `path`."""
        self.path = path
        self.touched = False
        self._files = files
        self._cache = cache
        self._lock = Lock()
        # -1: not known whether there is a file.
        self._count = -1
        # Entries that are in memory only, because the disk was full when they came.
        self._unwritten = 0
        self._entries: list[AbortedTransactionEntry] | None = None
        # Bytes that do not count may lie at `path`: the first write cuts them away.
        self._stale = new
        if new:
            self._count = 0
            self._entries = []

    @property
    def count(self) -> int:
        if self._count < 0:
            self._load()
        return self._count

    def entries(self) -> list[AbortedTransactionEntry]:
        """Return all entries, in the index's own list: do not change it. It may grow meanwhile.

        Raises:
            CorruptIndex: the file does not hold; rebuild it.
        """
        self.touched = True
        entries = self._entries
        return self._load() if entries is None else entries

    def append(self, aborted: AbortedTransactionEntry) -> None:
        """Write an entry at once: a marker is rare, and its entry small."""
        entries = self.entries()
        if entries and aborted.last_offset <= entries[-1].last_offset:
            raise InvalidArgument(
                f"the marker at {aborted.last_offset} cannot follow the one at "
                f"{entries[-1].last_offset} in {self.path}: markers are indexed in their order"
            )
        with self._lock:
            entries.append(aborted)
            self._entries = entries
            self._count += 1
            self._unwritten += 1
            try:
                self._write(entries)
            except OSError as error:
                # The marker is in the log. Its entry waits for the next one, or for a flush.
                if not has_no_room(error):
                    raise
        self._account()

    def _write(self, entries: list[AbortedTransactionEntry]) -> None:
        """Write the entries that are not in the file. The caller holds the lock."""
        file = self._files.get(self.path, create=True)
        if self._stale:
            file.truncate(0)
            self._stale = False
        written = self._count - self._unwritten
        data = b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries[written:])
        try:
            file.pwritev((data,), written * ENTRY_BYTES)
        except OSError as error:
            if has_no_room(error):
                file.truncate(written * ENTRY_BYTES)
            raise
        self._unwritten = 0

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> CollectedTransactions:
        """Return the transactions that overlap `fetch_offset <= offset < upper_bound_offset`.

        `complete` holds once an entry was written when the last stable offset was already at or
        past the bound: whatever began below the bound had been decided by then.
        """
        if self._count == 0:
            return CollectedTransactions([], complete=False)
        entries = self.entries()
        aborted: list[AbortedTransactionEntry] = []
        # Those decided before the range cannot complete the search: their last stable offset was at
        # most one past their marker.
        start = bisect_left(entries, fetch_offset, key=_LAST_OFFSET)
        for row in range(start, len(entries)):
            entry = entries[row]
            if entry.first_offset < upper_bound_offset:
                aborted.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return CollectedTransactions(aborted, complete=True)
        return CollectedTransactions(aborted, complete=False)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker is at or after `offset`."""
        if self.count == 0:
            return
        entries = self.entries()
        kept = bisect_left(entries, offset, key=_LAST_OFFSET)
        if kept == len(entries):
            return
        with self._lock:
            written = self._count - self._unwritten
            if kept < written:
                self._files.get(self.path).truncate(kept * ENTRY_BYTES)
            self._unwritten = max(0, kept - written)
            self._entries = entries[:kept]
            self._count = kept
            self._stale = kept == 0  # for `flush`: an empty file must last as well
        self._account()

    def reset(self) -> None:
        """Drop everything, readable or not; a rebuild begins here. `flush` makes it last."""
        with self._lock:
            self._entries = []
            self._count = 0
            self._unwritten = 0
            self._stale = True
        self._cache.release(self)

    def flush(self) -> None:
        """Return when all entries are on disk. Creates no file when there are none.

        The owner syncs the directory when the file is new.
        """
        with self._lock:
            # Looked at in here only: an entry that is just being appended must not be cut away.
            if self._unwritten:
                self._write(self._entries or [])
            if self._stale:
                if self._files.filesystem.exists(self.path):
                    file = self._files.get(self.path)
                    file.truncate(0)
                    sync_file(file)
                self._stale = False
                return
            if self._count <= 0:
                return
            file = self._files.get(self.path)
        sync_file(file)

    def rename(self, path: Path) -> None:
        """Give the file, if there is one, the name `path`. A reader that found neither name would
        take it that nothing was aborted."""
        with self._lock:
            rename_file(self._files, self.path, path)
            self.path = path

    def move(self, path: Path) -> None:
        """Go on at `path`, because the segment's directory was renamed."""
        with self._lock:
            self._files.forget(self.path)
            self.path = path

    def unload(self) -> None:
        """Drop the entries, when the cache asks for it."""
        if not self._unwritten:
            self._entries = None

    def close(self) -> None:
        """Let go of memory and descriptor. Entries were written when they came."""
        self.discard()

    def discard(self) -> None:
        """Let go, because the file is going to be removed."""
        self._cache.release(self)
        self._files.forget(self.path)

    def _load(self) -> list[AbortedTransactionEntry]:
        with self._lock:
            entries = self._entries
            if entries is None:
                entries = self._entries = self._read()
                self._count = len(entries)
        self._account()
        return entries

    def _read(self) -> list[AbortedTransactionEntry]:
        try:
            file = self._files.get(self.path)
        except FileNotFoundError:
            return []
        data = file.pread(file.size(), 0)
        if len(data) % ENTRY_BYTES:
            raise self._corrupt(f"its {len(data)} bytes are not a multiple of {ENTRY_BYTES}")
        entries: list[AbortedTransactionEntry] = []
        previous = -1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransactionEntry(*fields)
            if version != _VERSION:
                raise self._corrupt(f"entry {len(entries)} has the unknown version {version}")
            if not previous < entry.last_offset or not 0 <= entry.first_offset <= entry.last_offset:
                raise self._corrupt(f"entry {len(entries)} {entry} comes after marker {previous}")
            previous = entry.last_offset
            entries.append(entry)
        return entries

    def _account(self) -> None:
        if self._count > 0:
            self._cache.hold(self, self._count * _LOADED_ENTRY_BYTES)

    def _corrupt(self, what: str) -> CorruptIndex:
        return CorruptIndex(f"transaction index {self.path} is corrupt: {what}")
