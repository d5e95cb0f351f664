"""Reads which topics land in tables and how far those are, every few seconds."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.client.error import ClientError
from headrace.client.group.group_admin import CommittedOffset, GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.console.status.polling_thread import PollingThread
from headrace.console.status.snapshot import Snapshot
from headrace.console.status.table_status import table_status
from headrace.landing.configured.configured_topic import ConfiguredTopic, configured_topics
from headrace.landing.configured.landing_status import GROUP
from headrace.landing.error import LandingError
from headrace.model.clock import Clock
from headrace.model.ids import TopicPartition

_FIRST_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
# All topics are asked for their configuration.
_CONFIGURED_SECONDS: Final = 10.0
_MOST_SHOWN: Final = 200


class TablePoller(PollingThread):
    """Keeps the tables of topics as their configuration names them, and as `headrace land
    --configured` reports them.

    Args:
        snapshot: returns the cluster's last one, with the end offsets.

    Attributes:
        tables: the fields of the first tables by topic (`table_status`). It is replaced, never
            changed.
        more: how many there are beyond them.
        problem: why they cannot be read; None also where brokers have no tables of topics.
    """

    def __init__(
        self,
        settings: ClientSettings,
        clock: Clock,
        interval_seconds: float,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        super().__init__("console-tables")
        self._settings = settings
        self._clock = clock
        self._interval = self._pause = interval_seconds
        self._snapshot = snapshot
        self._pool: ConnectionPool | None = None
        self._configured: Mapping[str, ConfiguredTopic] = {}
        self._configured_at = -_CONFIGURED_SECONDS
        self._polls = 0
        self.tables: dict[str, dict[str, Any]] = {}
        self.more = 0
        self.problem: str | None = None

    def wait_for_first(self) -> None:
        """Return when the tables were read once, or after 10 seconds."""
        self.wait_until(lambda: self._polls > 0, _FIRST_SECONDS)

    def poll_once(self) -> float:
        self._pool = self._pool or ConnectionPool(self._settings)
        try:
            self._poll(self._pool)
            self.problem, self._pause = None, self._interval
        except LandingError:
            # Apache Kafka's brokers: there is nothing to show, and that will not change soon.
            self.tables, self._pause = {}, _LONGEST_PAUSE_SECONDS
        except ClientError as error:
            self.problem = str(error)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            self.release()
        self._polls += 1
        self.notify_waiting()
        return self._pause

    def release(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _poll(self, pool: ConnectionPool) -> None:
        now = time.monotonic()
        if now - self._configured_at >= min(_CONFIGURED_SECONDS, 5 * self._interval):
            self._configured = configured_topics(pool).topics
            self._configured_at = now
        committed = GroupAdmin(pool).committed(GROUP) if self._configured else {}
        names = sorted(self._configured)
        self.tables = {name: self._status(name, committed) for name in names[:_MOST_SHOWN]}
        self.more = max(0, len(names) - _MOST_SHOWN)

    def _status(
        self, name: str, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[str, Any]:
        configured = self._configured[name]
        try:
            ends = self._snapshot().ends
        except ClientError:
            ends = {}  # the console has just started
        return table_status(configured, committed, ends, self._clock.wall_ms())
