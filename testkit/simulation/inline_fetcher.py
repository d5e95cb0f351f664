"""The real code that applies a leader's response, without connection, task and threads."""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.replica.fast_follower import FastFollower
from headrace.broker.replica.fetcher import ReplicaFetcher
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.replication_throttle import ReplicationThrottle
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import Clock
from headrace.model.error import HeadraceError
from headrace.model.ids import BrokerId, TopicPartition
from headrace.wire.fetch_request import FetchPartition
from headrace.wire.fetch_response import FetchPartitionResult

_MAX_BYTES = 1 << 20


class InlineFetcher(ReplicaFetcher):
    """Stands for all fetchers of a broker (`ReplicaFetchers`) and for the one of a leader."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        # Not the constructor above: it starts a task.
        self._settings = settings
        self._throttle = ReplicationThrottle(clock, lambda: 1 << 60)
        self._behind: set[Any] = set()
        self._followers: dict[Any, Follower] = {}
        self._resting: dict[Any, float] = {}
        self._sent: dict[Any, FetchPartition] = {}
        self._touched: set[Any] = set()
        self._partition_max_bytes = _MAX_BYTES
        self._fast_path = FastFollower()
        self._loop: Any = _Loop(clock)
        self._truncations = _AtOnce()
        self.log_starts = _AtOnce()

    def request(self, follower: Follower) -> FetchPartition:
        """Return what the next fetch asks for."""
        return self._next_request(follower)

    def copy(
        self,
        leader: BrokerId,
        topic_id: UUID,
        asked: FetchPartition,
        result: FetchPartitionResult[memoryview],
    ) -> None:
        """Apply what a leader sent when it was asked for this.

        Each leader has a fetcher of its own in a broker: it knows the partitions that are followed
        there, and what it asked for itself.
        """
        key = (topic_id, result.partition)
        follower = self._followers.get(key)
        if follower is not None and follower.leader == leader:
            self._sent[key] = asked
            self._copy(key, result)

    # -- as `ReplicaFetchers`

    def follow(self, follower: Follower) -> None:
        self.leave(follower.name)
        self._followers[follower.topic_id, follower.name.partition] = follower

    def leave(self, name: TopicPartition) -> None:
        for key, follower in list(self._followers.items()):
            if follower.name == name:
                del self._followers[key]

    def reconnect(self, leader: BrokerId | None = None) -> None:
        """Do nothing: there is no connection."""

    def settle(self, name: TopicPartition) -> None:
        """Do nothing: a truncation is over when it has begun."""

    def following(self) -> Iterable[Follower]:
        return self._followers.values()


class _Loop:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def time(self) -> float:
        return self._clock.monotonic_ms() / 1000


class _AtOnce:
    """Changes of logs that the broker leaves to threads, done at once."""

    def under_way(self, name: TopicPartition) -> bool:
        return False

    def begin(
        self, name: TopicPartition, truncate: Callable[[], object], failed: Callable[[], object]
    ) -> None:
        try:
            truncate()
        except HeadraceError:
            failed()

    def request(self, stored: PartitionLog, log_start: int) -> None:
        stored.delete_records(log_start)
