"""Which parts of a log still have a newest record of some key."""

import numpy as np
import numpy.typing as npt

from headrace.log.compaction.offset_map import OffsetMap
from headrace.records.kernel.memory import Int64s

_SMALLEST_SHIFT = 4
_MOST_BUCKETS = 1 << 20


class LiveOffsets:
    """The offsets that a full map names, rounded to buckets of at least 16.

    Between `start` and `end`, where all keys are mapped, a record stays only if the map names its
    offset. So a batch in whose buckets there is none loses all its records, which is known without
    opening it. The opposite says nothing: the offset may be a neighbour's.

    Memory: 5 MiB at most, whatever the size of the log. It does not follow later changes of the
    map.
    """

    def __init__(self, offset_map: OffsetMap, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._shift = _SMALLEST_SHIFT
        while (end - start) >> self._shift >= _MOST_BUCKETS:
            self._shift += 1
        marked = np.zeros(((end - start) >> self._shift) + 1, dtype=np.bool_)
        for offsets in offset_map.newest_offsets():
            marked[(offsets[offsets < end] - start) >> self._shift] = True
        self._marked_before = np.zeros(len(marked) + 1, dtype=np.int32)
        np.cumsum(marked, out=self._marked_before[1:])

    def lacks(self, first: Int64s, last: Int64s) -> npt.NDArray[np.bool_]:
        """Return for each range of offsets, both ends included, whether no record in it stays."""
        inside = (first >= self._start) & (last < self._end)
        low = np.where(inside, first - self._start, 0) >> self._shift
        high = np.where(inside, last - self._start, 0) >> self._shift
        unmarked: npt.NDArray[np.bool_] = self._marked_before[high + 1] == self._marked_before[low]
        return inside & unmarked
