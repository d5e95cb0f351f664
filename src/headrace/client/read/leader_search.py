"""Finds leaders of partitions whose leader is unknown or has failed, and bounds how long.

Rule 1: the time limit is per partition. A failure that a moved leader or a lost connection explains
is retried until default.api.timeout.ms have passed without one good response; then the last error
is raised.
Rule 2: the pauses between two searches grow as long as any partition fails.
"""

from typing import Final
from uuid import UUID

from headrace.client.error import BrokerError, ClientError, ConnectionLost, Unreachable
from headrace.client.network.leader_call import partition_error
from headrace.client.network.metadata import BrokerMetadata, Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.cursor import Cursor
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_LONGEST_PAUSE_SECONDS: Final = 1.0
_NEW_TOPIC_SECONDS: Final = 5.0
"""A broker that has just started may not know a topic that was just created."""


class LeaderSearch:
    """Finds the leaders of cursors, and finds the new ones when they have moved.

    Args:
        pool: fetches metadata once per search. It must not retry: the caller polls sockets.
        settings: the time limit and the pauses.
    """

    def __init__(self, pool: ConnectionPool, settings: ClientSettings) -> None:
        self._pool = pool
        self._settings = settings
        self._leaderless: list[Cursor] = []
        self._failing: set[Cursor] = set()
        self._search_at = 0.0
        self._pause = settings.retry_backoff_ms / 1000

    @property
    def due(self) -> float | None:
        """When to search next, or None while every leader is known."""
        return self._search_at if self._leaderless else None

    def add(self, cursor: Cursor) -> None:
        """Search for the leader of one more partition."""
        self._leaderless.append(cursor)

    def search(self, now: float) -> list[tuple[Cursor, BrokerMetadata]]:
        """Fetch metadata; return the cursors whose leaders it names.

        Raises:
            ClientError: the time limit of a partition has passed, or its topic was replaced.
        """
        leaderless, self._leaderless = self._leaderless, []
        try:
            metadata = self._pool.metadata({each.partition.topic for each in leaderless})
        except (ConnectionLost, Unreachable) as error:
            for cursor in leaderless:
                self.fail(cursor, error, now)
            return []
        found = []
        for cursor in leaderless:
            leader = _leader(cursor, metadata)
            if isinstance(leader, BrokerMetadata):
                found.append((cursor, leader))
            else:
                self.fail(cursor, leader, now)
        return found

    def fail(self, cursor: Cursor, error: ClientError, now: float) -> None:
        """Search for the cursor's leader again after a pause, or give up.

        Raises:
            ClientError: the time limit of the partition has passed.
        """
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
        if now >= self._search_at:
            self._search_at = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._leaderless.append(cursor)

    def succeed(self, cursor: Cursor) -> None:
        """Note that the cursor's leader has responded well."""
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
    check_topic(cursor.partition, cursor.topic_id, topic.topic_id)
    found = topic.partitions[cursor.partition.partition]
    cursor.topic_id = topic.topic_id
    cursor.leader_epoch = found.leader_epoch
    broker = metadata.brokers.get(found.leader)
    return broker or Unreachable(f"broker {found.leader} is not there at the moment")


def check_topic(partition: TopicPartition, expected: UUID | None, found: UUID | None) -> None:
    """Refuse another topic of the same name.

    Args:
        expected: None if any topic of this name will do.

    Raises:
        BrokerError: it is another one.
    """
    if expected is not None and found != expected:
        raise BrokerError(
            ErrorCode.unknown_topic_id,
            f"cannot read {partition} on: its topic was deleted, and another of its name created",
        )
