"""Limits the rate at which replicas catch up, so that clients keep their share (KIP-73).

Rule 1: only replicas that a topic's configuration names are slowed down, and only while they are
behind: one that is in sync must stay so.
Rule 2: while the rate of the last seconds is above the limit, the leader sends a throttled replica
nothing, and the follower does not fetch it. One response may exceed the limit: the rate holds over
time, not at once.
"""

from collections.abc import Callable

from headrace.broker.quota import Rate
from headrace.model.clock import Clock

_EVERYTHING = "*"


class ReplicationThrottle:
    """The rate of this broker as leader, or as follower. Lives on the event loop."""

    def __init__(self, clock: Clock, limit: Callable[[], int]) -> None:
        self._clock = clock
        self._limit = limit
        self._rate = Rate()

    @property
    def exceeded(self) -> bool:
        return self._rate.add(0, self._clock.monotonic_ms()) > self._limit()

    def record(self, size_bytes: int) -> None:
        self._rate.add(size_bytes, self._clock.monotonic_ms())


def names_replica(listed: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Return whether a configuration like `0:1,1:2`, or `*`, has this replica in it.

    >>> names_replica(("0:1", "1:2"), 1, 2)
    True
    >>> names_replica(("0:1", "1:2"), 0, 2)
    False
    """
    return bool(listed) and (_EVERYTHING in listed or f"{partition}:{broker_id}" in listed)
