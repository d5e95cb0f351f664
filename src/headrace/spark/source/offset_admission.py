"""Limits the next micro-batch: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay.

Pure: takes positions and the time, returns the end of the micro-batch. Each partition gets the
connector's share: in proportion to the offsets that wait in it, and at least one, so that a small
partition beside large ones is read too.
"""

from collections.abc import Mapping

from headrace.model.ids import TopicPartition
from headrace.spark.source.offset_json import Offsets


class MinimumDelay:
    """Delays a micro-batch until enough offsets wait, or a maximum time has passed.

    The first micro-batch of a query starts at once.
    """

    def __init__(self, min_offsets: int, max_delay_ms: int) -> None:
        self._min_offsets = min_offsets
        self._max_delay_ms = max_delay_ms
        self._last_ms: float | None = None

    def holds_back(self, waiting: int, now_ms: float) -> bool:
        """Return whether to wait longer.

        Args:
            waiting: how many offsets have not been read.
        """
        due = self._last_ms is None or now_ms - self._last_ms >= self._max_delay_ms
        if not due and waiting < self._min_offsets:
            return True
        self._last_ms = now_ms
        return False


def waiting_offsets(begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """Return how many offsets lie between `begin` and `end`, in the partitions of `end`."""
    return sum(max(last - begin.get(each, last), 0) for each, last in end.items())


def capped_end(
    begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int
) -> Offsets:
    """Return an end that covers about `limit` offsets.

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
