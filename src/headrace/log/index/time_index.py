"""`.timeindex`: from a timestamp to an offset."""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from headrace.log.index.index_file import Columns, EntryLayout
from headrace.log.index.segment_index import MAX_RELATIVE, SegmentIndex
from headrace.model.offset import NO_TIMESTAMP_MS, Offset

_LITTLE = sys.byteorder == "little"


def _columns(data: bytes) -> Columns:
    """Split the file: three 32-bit words per entry, the first two are halves of the timestamp."""
    words = array("I", data)
    if _LITTLE:
        words.byteswap()
    halves = array("I", bytes(len(words) // 3 * 8))
    halves[0::2] = words[1::3] if _LITTLE else words[0::3]
    halves[1::2] = words[0::3] if _LITTLE else words[1::3]
    return array("q", halves.tobytes()), array("i", words[2::3].tobytes())


_LAYOUT = EntryLayout("time index", struct.Struct(">qi"), ("q", "i"), _columns)


class TimeIndexEntry(NamedTuple):
    """No record up to and including the batch of `offset` is newer than `timestamp_ms`."""

    timestamp_ms: int
    offset: Offset


class TimeIndex(SegmentIndex):
    """Sparse map from timestamps to offsets of one segment.

    Invariant: timestamps and offsets both increase strictly. An entry (T, O) says that every record
    newer than T comes after O, so the first record at or after some time is found by scanning
    forward from `lookup(time)`. Timestamps come from producers and may run backwards in the log;
    only a new maximum makes an entry.

    Byte format (Kafka's): 12-byte entries, int64 timestamp in milliseconds, int32 offset relative
    to the segment's base offset, big-endian. Not checksummed: after a crash it is rebuilt.
    """

    __slots__ = ()

    layout = _LAYOUT

    @property
    def last_entry(self) -> TimeIndexEntry:
        """The greatest timestamp indexed; `(-1, base_offset)` when there is none."""
        last = self._file.last
        if last is None:
            return TimeIndexEntry(NO_TIMESTAMP_MS, Offset(self.base_offset))
        return TimeIndexEntry(last[0], Offset(self.base_offset + last[1]))

    def lookup(self, timestamp_ms: int) -> TimeIndexEntry:
        """Return the last entry at or before `timestamp_ms`; `(-1, base_offset)` without one.

        Raises:
            CorruptIndex: the file does not hold; rebuild it.
        """
        timestamps, offsets = self._file.columns()
        row = bisect_right(timestamps, timestamp_ms) - 1
        if row < 0:
            return TimeIndexEntry(NO_TIMESTAMP_MS, Offset(self.base_offset))
        return TimeIndexEntry(timestamps[row], Offset(self.base_offset + offsets[row]))

    def maybe_append(self, timestamp_ms: int, offset: int) -> bool:
        """Add an entry if `timestamp_ms` is newer than all before; return whether it was."""
        last_timestamp, last_relative = self._file.last or (NO_TIMESTAMP_MS, -1)
        if timestamp_ms <= last_timestamp:
            return False
        relative = offset - self.base_offset
        if not last_relative < relative <= MAX_RELATIVE:
            raise self._misplaced(offset, last_relative)
        self._file.append(timestamp_ms, relative)
        return True

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offset is at or after `offset`."""
        if self._file.count:
            _, offsets = self._file.columns()
            self._file.truncate(bisect_left(offsets, offset - self.base_offset))

    def free_entries(self, max_bytes: int) -> int:
        """Return how many more entries fit, but for the one that closing the segment adds."""
        return max_bytes // _LAYOUT.entry.size - 1 - self._file.count
