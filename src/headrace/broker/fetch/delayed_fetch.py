"""A fetch that waits until there is enough to send, or until its time is up."""

from collections.abc import Iterable
from typing import Protocol

from headrace.broker.network.poller import Scheduler
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.waiter import Waiter


class GrowthSource(Protocol):
    """What a fetch waits for to grow: a leader's partition, or a follower's, as consumers read it;
    or the log end of a leader's partition, as its followers fetch it (`LogEndGrowth`)."""

    def add_waiter(self, waiter: Waiter) -> None: ...

    def remove_waiter(self, waiter: Waiter) -> None: ...


class SourceSet(Protocol):
    """Sources that a session watches on its own; it adds each of them to the fetch that waits when
    it has grown (`fetch_watch.FetchWatch`)."""

    def add_fetch(self, fetch: "DelayedFetch") -> None: ...

    def remove_fetch(self, fetch: "DelayedFetch") -> None: ...


class LogEndGrowth:
    """The growth of a partition up to its log end, for a follower's fetch."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def add_waiter(self, waiter: Waiter) -> None:
        self._partition.add_replica_waiter(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._partition.remove_replica_waiter(waiter)


class LogEndAndHighWatermark:
    """The growth of a partition up to its log end, and the moves of its high watermark, of which a
    follower's session must know both. Two of one partition are equal."""

    __slots__ = ("partition",)

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogEndAndHighWatermark) and self.partition is other.partition

    def __hash__(self) -> int:
        return id(self.partition)

    def add_waiter(self, waiter: Waiter) -> None:
        self.partition.add_replica_waiter(waiter)
        self.partition.add_waiter(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self.partition.remove_replica_waiter(waiter)
        self.partition.remove_waiter(waiter)


class WaitingFetch(Protocol):
    """The request behind a `DelayedFetch`."""

    def readable_bytes(self) -> int:
        """Return how much could be sent now, or at least `min_bytes` to report an error.

        Called after growth."""

    def complete(self) -> None:
        """Answer. Called exactly once, with enough to send or when time is up."""


class DelayedFetch:
    """Waits for `min_bytes` on any of its partitions together.

    `grew` only counts. When the count says that it could be enough, the records are read again,
    after the event that is being served: so the producer's response leaves first.

    Args:
        sources: what it waits for.
        watched: waits for these, too.
    """

    __slots__ = (
        "_call_after_event",
        "_fetch",
        "_finished",
        "_min_bytes",
        "_missing_bytes",
        "_scheduled",
        "_sources",
        "_timer",
        "_watched",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        fetch: WaitingFetch,
        sources: Iterable[GrowthSource],
        *,
        have_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
        watched: SourceSet | None = None,
    ) -> None:
        self._call_after_event = scheduler.call_after_event
        self._fetch = fetch
        self._sources = list(sources)
        self._watched = watched
        self._min_bytes = min_bytes
        self._missing_bytes = min_bytes - have_bytes
        self._scheduled = False
        self._finished = False
        self._timer = scheduler.loop.call_later(max_wait_ms / 1000, self.finish)
        for source in self._sources:
            source.add_waiter(self)
        if watched is not None:
            watched.add_fetch(self)

    def add_source(self, source: GrowthSource) -> None:
        """Wait for this one, too."""
        if not self._finished:
            self._sources.append(source)
            source.add_waiter(self)

    def grew(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and not self._scheduled:
            self._scheduled = True
            self._call_after_event(self._look_again)

    def _look_again(self) -> None:
        self._scheduled = False
        if self._finished:
            return
        have_bytes = self._fetch.readable_bytes()
        if have_bytes >= self._min_bytes:
            self.finish()
        else:
            self._missing_bytes = self._min_bytes - have_bytes

    def cancel(self) -> None:
        """Stop waiting without an answer: the client is gone."""
        if self._finished:
            return
        self._finished = True
        self._timer.cancel()
        for source in self._sources:
            source.remove_waiter(self)
        if self._watched is not None:
            self._watched.remove_fetch(self)

    def finish(self) -> None:
        """Answer now, with whatever there is."""
        if self._finished:
            return
        self.cancel()
        self._fetch.complete()
