"""Which partitions of a fetch session may have something new.

Theory of operation
-------------------
A session may hold thousands of partitions of which hardly any has something new. To look at all of
them for every fetch, and to wait for each of them, costs milliseconds per fetch. So the session
knows which are *ready*: a fetch looks at those only. A partition that was found at its end, with
nothing to report, is *idle*: a watcher is left with it, which makes it ready again when it grows.

Rule 1: a partition is ready when it is new to the session, when the client names it again, and when
its high watermark or last stable offset has moved.
Rule 2: a partition is idle only after a look found the client at its end, and the client knows its
offsets. Records that did not fit into a response stay ready.
Rule 3: a watcher calls once, and is gone. So an append to a busy partition does not pay for the
sessions that have not fetched since.
Rule 4: what no watcher reports (a moved log start, a failed disk, changed permissions) changes the
`token` of the next fetch, and makes all partitions ready. After a change of the topic table those
are ready that this broker leads or follows in another way than before.
Rule 5: partitions are read in the order in which they became ready; those whose records were sent
go to the end, so that a byte limit cannot starve the others.
"""

from collections.abc import Callable, Iterable

from headrace.broker.fetch.delayed_fetch import DelayedFetch, GrowthSource
from headrace.broker.replica.fetch_session import FetchedPartition

FindSource = Callable[[FetchedPartition], GrowthSource | None]
"""Finds the partition behind an item; None where this broker neither leads nor follows it."""


class _Watcher:
    """Waits for one partition that is idle."""

    __slots__ = ("_watch", "item", "source")

    def __init__(self, watch: "FetchWatch", item: FetchedPartition, source: GrowthSource) -> None:
        self._watch = watch
        self.item = item
        self.source = source

    def grew(self, size_bytes: int) -> None:
        self._watch.grew(self, size_bytes)

    def finish(self) -> None:
        self._watch.finish()


class FetchWatch:
    """The partitions of one session that are ready, and watchers with those that are idle.

    Bounded by the partitions of the session. Lives on the event loop.

    Attributes:
        ready: in the order in which they are read next.
    """

    __slots__ = ("_fetches", "_find", "_idle", "_token", "_version", "ready")

    def __init__(self, find: FindSource, items: Iterable[FetchedPartition]) -> None:
        self._find = find
        self._idle: dict[FetchedPartition, _Watcher] = {}
        self._fetches: set[DelayedFetch] = set()
        self._token: object = None
        self._version = -1
        self.ready = dict.fromkeys(items)

    def __len__(self) -> int:
        """Return how many partitions are idle."""
        return len(self._idle)

    def refresh(self, version: int, token: object) -> None:
        """Make ready what a change made doubtful, before a fetch (rule 4).

        Args:
            version: of the topic table.
            token: anything that is equal as long as nothing else has changed.
        """
        if token != self._token:
            self._token, self._version = token, version
            for item in tuple(self._idle):
                self.wake(item)
        elif version != self._version:
            self._version = version
            changed = [
                item for item, watcher in self._idle.items() if self._find(item) != watcher.source
            ]
            for item in changed:
                self.wake(item)

    def wake(self, item: FetchedPartition) -> None:
        """Make a partition ready (rule 1)."""
        self._remove_watcher(item)
        self.ready[item] = None

    def set_idle(self, item: FetchedPartition) -> None:
        """Leave a watcher with a partition (rule 2)."""
        source = self._find(item)
        if source is not None and item in self.ready:
            del self.ready[item]
            watcher = self._idle[item] = _Watcher(self, item, source)
            source.add_waiter(watcher)

    def rotate(self, item: FetchedPartition) -> None:
        """Read a partition after the others that are ready (rule 5)."""
        if item in self.ready:
            del self.ready[item]
            self.ready[item] = None

    def forget(self, item: FetchedPartition) -> None:
        """Drop a partition that left the session."""
        self._remove_watcher(item)
        self.ready.pop(item, None)

    def close(self) -> None:
        """Remove all watchers: the session has ended."""
        for watcher in self._idle.values():
            watcher.source.remove_waiter(watcher)
        self._idle.clear()
        self.ready.clear()

    def _remove_watcher(self, item: FetchedPartition) -> None:
        watcher = self._idle.pop(item, None)
        if watcher is not None:
            watcher.source.remove_waiter(watcher)

    # -- what watchers report

    def grew(self, watcher: _Watcher, size_bytes: int) -> None:
        self.wake(watcher.item)
        for fetch in tuple(self._fetches):
            fetch.add_source(watcher.source)
            fetch.grew(size_bytes)

    def finish(self) -> None:
        """Answer the fetch that waits: the broker stops."""
        for fetch in tuple(self._fetches):
            fetch.finish()

    # -- a fetch that waits for any of them: `delayed_fetch.SourceSet`

    def add_fetch(self, fetch: DelayedFetch) -> None:
        self._fetches.add(fetch)

    def remove_fetch(self, fetch: DelayedFetch) -> None:
        self._fetches.discard(fetch)
