"""Where logs ended between two polls.

Several commits come between two polls. Compared with one and the same end, each would seem to leave
less lag than the one before it, however fast the log grows.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.model.ids import TopicPartition


class EndPair(NamedTuple):
    """The log ends of two polls, each with its time in milliseconds."""

    before: tuple[int, Mapping[TopicPartition, int]]
    now: tuple[int, Mapping[TopicPartition, int]]

    def at(self, partition: TopicPartition, at_ms: int) -> int | None:
        """Return the end at a time, as if the log had grown evenly; None if it is not known.

        >>> clicks = TopicPartition("clicks", 0)
        >>> EndPair((0, {clicks: 100}), (2000, {clicks: 300})).at(clicks, 500)
        150
        """
        (before_ms, before), (now_ms, now) = self
        end = now.get(partition)
        if end is None or partition not in before or now_ms <= before_ms:
            return end
        share = min(max((at_ms - before_ms) / (now_ms - before_ms), 0.0), 1.0)
        start = before[partition]
        return start + round((end - start) * share)
