"""How far the next micro-batch goes: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay.

Pure: where everything stands and what time it is in, where to end out. The shares are the
connector's: in proportion to what each partition has, and at least one offset for each, so that a
small partition beside big ones is not left behind.
"""

from collections.abc import Mapping

from headrace.model.ids import TopicPartition
from headrace.spark.source.offset_json import Offsets


class MinimumDelay:
    """Whether too little has come to start a micro-batch, and it is too early to start anyway.

    The first one of a query starts at once.
    """

    def __init__(self, min_offsets: int, max_delay_ms: int) -> None:
        self._min_offsets = min_offsets
        self._max_delay_ms = max_delay_ms
        self._last_ms: float | None = None

    def holds_back(self, waiting: int, now_ms: float) -> bool:
        """Args:
        waiting: how many offsets have not been read.
        """
        due = self._last_ms is None or now_ms - self._last_ms >= self._max_delay_ms
        if not due and waiting < self._min_offsets:
            return True
        self._last_ms = now_ms
        return False


def waiting_offsets(begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """How many offsets lie between, in the partitions of `end`."""
    return sum(max(last - begin.get(each, last), 0) for each, last in end.items())


def capped_end(
    begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int
) -> Offsets:
    """An end that takes about `limit` offsets.

    >>> big, small = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
    >>> found = capped_end({big: 0, small: 0}, {big: 990, small: 10}, 50)
    >>> found[big], found[small]
    (49, 1)
    """
    total = waiting_offsets(begin, end)
    if total <= limit:
        return dict(end)
    found: Offsets = {}
    for each, last in end.items():
        first = begin.get(each, last)
        waiting = last - first
        # Whole numbers only: a share of an int64 does not fit a float.
        share = max(limit * waiting // total, 1)
        found[each] = last if waiting <= 0 else min(first + share, last)
    return found
