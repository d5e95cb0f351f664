"""Partitions whose leader is not known, or not known any more, and how long to look for it.

Rule 1: patience is per partition. Whatever a leader's move or a lost connection explains is tried
again until default.api.timeout.ms have passed without one good answer; then the last error is
raised.
Rule 2: the pauses between two looks grow as long as anything fails, whatever it is.
"""

from typing import Final

from headrace.client.error import BrokerError, ClientError, ConnectionLost, Unreachable
from headrace.client.network.leader_call import partition_error
from headrace.client.network.metadata import BrokerMetadata, Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.cursor import Cursor
from headrace.client.settings import ClientSettings
from headrace.wire.error_code import ErrorCode

_LONGEST_PAUSE_SECONDS: Final = 1.0
_NEW_TOPIC_SECONDS: Final = 5.0
"""A topic that was just made, and a broker that just started, may not know of each other yet."""


class LeaderSearch:
    """Finds the leaders of cursors, and finds them again.

    Args:
        pool: asked once for each look; it must not be a patient one.
        settings: whose patience it is.
    """

    def __init__(self, pool: ConnectionPool, settings: ClientSettings) -> None:
        self._pool = pool
        self._settings = settings
        self._wanted: list[Cursor] = []
        self._failing: set[Cursor] = set()
        self._look_at = 0.0
        self._pause = settings.retry_backoff_ms / 1000

    @property
    def due(self) -> float | None:
        """When to look next, or None while every leader is known."""
        return self._look_at if self._wanted else None

    def add(self, cursor: Cursor) -> None:
        self._wanted.append(cursor)

    def look(self, now: float) -> list[tuple[Cursor, BrokerMetadata]]:
        """Ask for metadata: the cursors whose leaders were found.

        Raises:
            ClientError: one was looked for long enough, or its topic is another one now.
        """
        wanted, self._wanted = self._wanted, []
        try:
            metadata = self._pool.metadata({each.partition.topic for each in wanted})
        except (ConnectionLost, Unreachable) as error:
            for cursor in wanted:
                self.fail(cursor, error, now)
            return []
        found = []
        for cursor in wanted:
            leader = _leader(cursor, metadata)
            if isinstance(leader, BrokerMetadata):
                found.append((cursor, leader))
            else:
                self.fail(cursor, leader, now)
        return found

    def fail(self, cursor: Cursor, error: ClientError, now: float) -> None:
        """Look for its leader again after a pause, or give up."""
        if cursor.failing_since is None:
            cursor.failing_since = now
            self._failing.add(cursor)
        patience = self._settings.api_timeout_ms / 1000
        if isinstance(error, BrokerError) and error.code is ErrorCode.unknown_topic_or_partition:
            patience = min(patience, _NEW_TOPIC_SECONDS)
        if now - cursor.failing_since >= patience:
            if isinstance(error, BrokerError):
                raise BrokerError(error.code, f"cannot read {cursor.partition}: {error}")
            raise type(error)(f"cannot read {cursor.partition}: {error}")
        if now >= self._look_at:
            self._look_at = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._wanted.append(cursor)

    def well(self, cursor: Cursor) -> None:
        """Its leader has answered."""
        if cursor.failing_since is not None:
            cursor.failing_since = None
            self._failing.discard(cursor)
            if not self._failing:
                self._pause = self._settings.retry_backoff_ms / 1000


def _leader(cursor: Cursor, metadata: Metadata) -> BrokerMetadata | ClientError:
    problem = partition_error(metadata, cursor.partition)
    if problem is not None:
        return problem
    topic = metadata.topics[cursor.partition.topic]
    if cursor.topic_id is not None and topic.topic_id != cursor.topic_id:
        raise BrokerError(
            ErrorCode.unknown_topic_id,
            f"cannot read {cursor.partition} on: "
            "its topic was deleted, and another of its name created",
        )
    found = topic.partitions[cursor.partition.partition]
    cursor.topic_id = topic.topic_id
    cursor.leader_epoch = found.leader_epoch
    broker = metadata.brokers.get(found.leader)
    return broker or Unreachable(f"broker {found.leader} is not there at the moment")
