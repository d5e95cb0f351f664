"""When each group next needs a tick, for thousands of groups."""

import heapq


class TimerQueue:
    """The earliest deadline of many keys. Not for several threads.

    Deadlines mostly move later, with every heartbeat. So a later one is not queued: the earlier
    entry stays, fires once for nothing, and the caller that popped it sets the deadline again. The
    queue thus holds about one entry per key, however often its deadline moves.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._queued: dict[str, int] = {}

    def set(self, key: str, deadline_ms: int | None) -> None:
        """Make sure `key` is due at `deadline_ms` or earlier; None asks for nothing."""
        if deadline_ms is None:
            return
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._queued[key] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, key))

    def deadline_ms(self) -> int | None:
        """Return when `pop_due` has something, at the earliest."""
        while self._heap and self._queued.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> str | None:
        """Remove and return a key whose time has come."""
        deadline_ms = self.deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._queued[key]
        return key
