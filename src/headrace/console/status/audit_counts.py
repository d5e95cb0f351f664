"""The counts of the audit topic, as far as the console has read it."""

from threading import Lock
from typing import Any, Final

from headrace.audit.feed import AuditFeed
from headrace.audit.reconciliation import Reconciliation
from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.model.clock import Clock

LOOKBACK_MS: Final = 24 * 60 * 60 * 1000


class AuditCounts:
    """Reads the audit topic and compares what every tier counted.

    Threads: one thread calls `read_new`, others call `rows`.
    """

    def __init__(self, settings: ClientSettings, clock: Clock, topic: str) -> None:
        self._clock = clock
        self._topic = topic
        self._feed = AuditFeed(settings, clock.wall_ms() - LOOKBACK_MS, topic)
        self._reconciliation = Reconciliation()
        self._lock = Lock()
        self.problem: str | None = None

    def read_new(self) -> None:
        """Add what was written since the last call. If the topic cannot be read, `problem` says
        why, and the page shows it."""
        try:
            records = self._feed.take()
        except ClientError as error:
            self.problem = str(error)
            return
        self.problem = None
        with self._lock:
            self._reconciliation.add(records)

    def rows(self, *, since_ms: int, grace_ms: int) -> list[dict[str, Any]]:
        with self._lock:
            rows = self._reconciliation.rows(
                now_ms=self._clock.wall_ms(), grace_ms=grace_ms, since_ms=since_ms
            )
        return [each.as_json() for each in rows]

    def close(self) -> None:
        self._feed.close()
