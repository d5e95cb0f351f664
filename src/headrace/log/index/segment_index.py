"""What the offset index and the time index share: a file, from its opening to its removal."""

from pathlib import Path
from typing import ClassVar

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.index_file import EntryLayout, IndexFile
from headrace.model.error import InvalidArgument

# Entries hold offsets and positions as int32.
MAX_RELATIVE = 2**31 - 1


class SegmentIndex:
    """A sparse index of one segment, in an `IndexFile` whose offsets count from `base_offset`.

    A subclass says how an entry lies on disk (`layout`) and what its two integers mean.

    Threads: one appends, truncates and flushes; any may look up. See `IndexFile`.
    """

    __slots__ = ("_file", "base_offset")

    layout: ClassVar[EntryLayout]

    def __init__(
        self, path: Path, base_offset: int, files: FilePool, cache: IndexCache, *, new: bool = False
    ) -> None:
        """Touch nothing on disk. With `new` start empty, whatever a crash left at `path`."""
        self.base_offset = base_offset
        self._file = IndexFile(path, self.layout, files, cache, new=new)

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def count(self) -> int:
        return self._file.count

    @property
    def size_bytes(self) -> int:
        return self._file.count * self.layout.entry.size

    def reset(self) -> None:
        """Drop everything, readable or not; a rebuild begins here."""
        self._file.reset()

    def check(self) -> None:
        """Read all entries and raise `CorruptIndex` if they cannot be an index of this segment."""
        self._file.check()

    def flush(self) -> None:
        """Return when all entries are on disk; creates the file even when there are none."""
        self._file.flush()

    def rename(self, path: Path) -> None:
        """Give the file another name, for all readers at once."""
        self._file.rename(path)

    def move(self, path: Path) -> None:
        """Go on at `path`, because the segment's directory was renamed."""
        self._file.move(path)

    def close(self) -> None:
        """Write what is pending and let go of memory and descriptor."""
        self._file.close()

    def discard(self) -> None:
        """Let go without writing, because the file is going to be removed."""
        self._file.discard()

    def _misplaced(self, offset: int, last_relative: int) -> InvalidArgument:
        """Return what to raise for an offset that an entry cannot hold after `last_relative`."""
        last_offset = self.base_offset + max(last_relative, 0)
        return InvalidArgument(
            f"offset {offset} cannot follow {last_offset} in {self.path}: offsets grow, "
            f"by at most {MAX_RELATIVE} over the base offset {self.base_offset}"
        )
