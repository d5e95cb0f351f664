"""Polls the cluster every few seconds, so that a page is answered at once and charts have a past.

Requests read the last `Snapshot`. While the cluster does not answer, the last snapshot stays, and
`problem` says what is wrong. The pause after a poll grows with the time that the poll took: the
console spends about a fifth of the time polling, not more.
"""

import time
from collections.abc import Callable
from typing import Final

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import EARLIEST, LATEST, FoundOffset, list_offsets
from headrace.client.settings import ClientSettings
from headrace.console.status.cluster_health import troubled_min_isr
from headrace.console.status.log_size import log_sizes
from headrace.console.status.polling_thread import PollingThread
from headrace.console.status.record_size import RecordSizes
from headrace.console.status.snapshot import Snapshot
from headrace.console.status.snapshot_history import SnapshotHistory
from headrace.lag.watch import LagWatch
from headrace.model.clock import Clock, SystemClock
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

# Metadata, start offsets and log sizes change slowly: they are read in every fifth poll.
_FULL_POLL_EVERY: Final = 5
_PAUSE_PER_POLL_SECOND: Final = 4.0
_LONGEST_PAUSE_SECONDS: Final = 20.0
_MISSING_REFRESH_SECONDS: Final = 0.5

AfterPoll = Callable[[], None]


class ClusterPoller(PollingThread):
    """Keeps the newest snapshot of the cluster and the history of earlier ones.

    Args:
        interval_seconds: from the start of one poll to the next, if the poll is quick.
        after_poll: called after each poll, in the same thread. It must not raise and must be quick.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        interval_seconds: float = 2.0,
        clock: Clock | None = None,
        after_poll: AfterPoll | None = None,
    ) -> None:
        super().__init__("console-cluster")
        self._settings = settings
        self._interval = interval_seconds
        self._clock = clock or SystemClock()
        self._after_poll = after_poll
        self._lag = LagWatch(settings, self._clock)
        self._record_sizes = RecordSizes()
        self._polls = 0
        self._missing_at = 0.0
        self._pool: ConnectionPool | None = None
        self._snapshot: Snapshot | None = None
        self.history = SnapshotHistory()
        self.problem: str | None = "the console has not reached the cluster yet"

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot.

        Raises:
            ClientError: no poll has succeeded yet.
        """
        if self._snapshot is None:
            raise ClientError(self.problem or "the console has just started")
        return self._snapshot

    def refresh(self) -> None:
        """Poll everything now, because something was changed."""
        self._polls = 0
        super().refresh()

    def wait_for(self, topic: str, seconds: float = 20.0) -> None:
        """Refresh, and return when the snapshot has a new topic or the time is over."""
        self.refresh()
        self.wait_until(lambda: self._has_topic(topic), seconds)

    def _has_topic(self, topic: str) -> bool:
        return self._snapshot is not None and topic in self._snapshot.metadata.topics

    def report_missing(self) -> None:
        """Refresh, at most twice per second, because the last snapshot lacks what a request named.

        Without the limit, requests for a topic that does not exist would keep the cluster busy.
        """
        now = time.monotonic()
        if now - self._missing_at >= _MISSING_REFRESH_SECONDS:
            self._missing_at = now
            self.refresh()

    def poll_once(self) -> float:
        began = time.monotonic()
        self._pool = self._pool or ConnectionPool(self._settings)
        try:
            self._poll_cluster(self._pool)
            self.problem = None
        except HeadraceError as error:
            self.problem = str(error)
            self._pool.close()
            self._pool = None
        self.notify_waiting()
        if self._after_poll is not None:
            self._after_poll()
        took = time.monotonic() - began
        pause = min(took * _PAUSE_PER_POLL_SECOND, _LONGEST_PAUSE_SECONDS)
        first = self._polls <= 1
        return max(self._interval - took, self._interval if first else pause)

    def release(self) -> None:
        self._lag.close()
        if self._pool is not None:
            self._pool.close()

    def _poll_cluster(self, pool: ConnectionPool) -> None:
        began = time.monotonic()
        before = self._snapshot
        full = self._polls % _FULL_POLL_EVERY == 0 or before is None
        if full or before is None:
            metadata = pool.metadata()
            sizes = log_sizes(pool, sorted(metadata.brokers))
            min_isr = troubled_min_isr(pool, metadata)
        else:
            metadata, sizes, min_isr = before.metadata, before.sizes, before.min_isr
        partitions = [
            topic.partition(index)
            for topic in metadata.topics.values()
            for index, each in topic.partitions.items()
            if each.leader >= 0
        ]
        ends = _offsets(pool, partitions, LATEST)
        at_ms = self._clock.wall_ms()
        starts = _offsets(pool, partitions, EARLIEST) if full or before is None else before.starts
        if full:
            self._record_sizes.measure(sizes.partitions, starts, ends)
        record_bytes = self._record_sizes.means()
        if before is None:
            # The first read of committed offsets covers minutes of commits. Pages that do not need
            # them are served meanwhile.
            self._snapshot = Snapshot(
                at_ms, metadata, ends, starts, sizes, {}, 0, record_bytes, min_isr
            )
        groups = {each.group: each for each in self._lag.look(pool, ends)}
        took_ms = round((time.monotonic() - began) * 1000)
        snapshot = Snapshot(
            at_ms, metadata, ends, starts, sizes, groups, took_ms, record_bytes, min_isr
        )
        self.history.add(snapshot)
        self._snapshot = snapshot
        self._polls += 1


def _offsets(
    pool: ConnectionPool, partitions: list[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    """Return the offset of each partition at a time; partitions with an error are left out."""
    answers = list_offsets(pool, dict.fromkeys(partitions, time_ms)) if partitions else {}
    return {
        each: answer.offset for each, answer in answers.items() if isinstance(answer, FoundOffset)
    }
