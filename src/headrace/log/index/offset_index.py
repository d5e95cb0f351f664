"""`.index`: from an offset to a position in the segment's file."""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from headrace.log.index.index_file import Columns, EntryLayout
from headrace.log.index.segment_index import MAX_RELATIVE, SegmentIndex
from headrace.model.error import InvalidArgument
from headrace.model.offset import Offset

_SWAP = sys.byteorder == "little"


def _columns(data: bytes) -> Columns:
    numbers = array("i", data)
    if _SWAP:
        numbers.byteswap()
    return numbers[0::2], numbers[1::2]


_LAYOUT = EntryLayout("offset index", struct.Struct(">ii"), ("i", "i"), _columns)


class OffsetPosition(NamedTuple):
    """The batch whose last offset is `offset` starts at byte `position`.

    Before the first entry it is `(base_offset, 0)`: the start of the segment.
    """

    offset: Offset
    position: int


class OffsetIndex(SegmentIndex):
    """Sparse map from offsets to byte positions of one segment, one entry per
    `index.interval.bytes` of log.

    Invariant: offsets and positions both increase strictly. `lookup(offset)` never answers with a
    position behind the batch that holds `offset`, so a forward scan from there finds it.

    Byte format (Kafka's): 8-byte entries, int32 offset relative to the segment's base offset, int32
    position, big-endian. Not checksummed: in the event of a crash it is rebuilt from the segment.
    """

    __slots__ = ()

    layout = _LAYOUT

    @property
    def last_offset(self) -> Offset:
        """The offset of the last entry, the base offset when there is none."""
        last = self._file.last
        return Offset(self.base_offset + last[0] if last else self.base_offset)

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or before `offset`; `(base_offset, 0)` when there is none.

        Raises:
            CorruptIndex: the file does not hold; rebuild it.
        """
        return self.lookup_before(offset, 0)

    def lookup_before(self, offset: int, entries: int) -> OffsetPosition:
        """Return the entry so many before that of `lookup`; `(base_offset, 0)` past the first."""
        offsets, positions = self._file.columns()
        base = self.base_offset
        row = bisect_right(offsets, offset - base) - 1 - entries
        if row < 0:
            return OffsetPosition(Offset(base), 0)
        return OffsetPosition(Offset(base + offsets[row]), positions[row])

    def bound_at(self, position: int) -> int | None:
        """Return an offset above all that lie before byte `position`: that of the first entry at
        or behind it; None when there is no such entry."""
        offsets, positions = self._file.columns()
        row = bisect_left(positions, position)
        # A reader may meet a column that is just being extended: the positions first.
        return self.base_offset + offsets[row] if row < len(offsets) else None

    def append(self, offset: int, position: int) -> None:
        """Remember that the batch whose last offset is `offset` starts at `position`."""
        last_relative, last_position = self._file.last or (-1, -1)
        relative = offset - self.base_offset
        if not last_relative < relative <= MAX_RELATIVE:
            raise self._misplaced(offset, last_relative)
        if not last_position < position <= MAX_RELATIVE:
            raise InvalidArgument(
                f"position {position} cannot follow {last_position} in {self.path}: positions "
                f"grow, up to {MAX_RELATIVE}"
            )
        self._file.append(relative, position)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and after `offset`.

        Entries {10, 20, 30} truncated to 20 are {10}, truncated to 21 are {10, 20}.
        """
        if self._file.count:
            offsets, _ = self._file.columns()
            self._file.truncate(bisect_left(offsets, offset - self.base_offset))

    def free_entries(self, max_bytes: int) -> int:
        """Return how many more entries fit; with none it is time to roll the segment."""
        return max_bytes // _LAYOUT.entry.size - self._file.count
