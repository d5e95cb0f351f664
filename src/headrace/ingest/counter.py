"""Counters of a component, under the names of Flume's monitoring."""

import time
from collections.abc import Iterable
from threading import Lock


class Counters:
    """Counts by name. They change once per batch, so that one lock for all is cheap.

    Threads: any.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._counts = dict.fromkeys(names, 0)
        self._lock = Lock()
        self.start_time_ms = 0
        self.stop_time_ms = 0

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + count

    def __getitem__(self, name: str) -> int:
        return self._counts.get(name, 0)

    def started(self) -> None:
        self.start_time_ms, self.stop_time_ms = time.time_ns() // 1_000_000, 0

    def stopped(self) -> None:
        self.stop_time_ms = time.time_ns() // 1_000_000

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            counts = dict(self._counts)
        return {**counts, "StartTime": self.start_time_ms, "StopTime": self.stop_time_ms}
