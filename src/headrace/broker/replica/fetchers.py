"""The replica fetchers of a broker."""

import asyncio
from collections.abc import Iterable

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.peer.connector import PeerConnector
from headrace.broker.replica.fetcher import ReplicaFetcher
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.log_start_queue import LogStartQueue
from headrace.broker.replica.log_truncations import LogTruncations
from headrace.broker.replica.replica_host import ReplicaHost
from headrace.broker.replica.replication_throttle import ReplicationThrottle
from headrace.model.ids import BrokerId, TopicPartition


class ReplicaFetchers:
    """One fetcher per leader that this broker follows. Lives on the event loop."""

    def __init__(
        self,
        host: ReplicaHost,
        settings: BrokerSettings,
        connector: PeerConnector,
        throttle: ReplicationThrottle,
    ) -> None:
        self._host = host
        self._settings = settings
        self._connector = connector
        self.throttle = throttle
        self.log_starts = LogStartQueue(host.log_threads, self._log_start_moved)
        self._truncations = LogTruncations(host.log_threads)
        self._fetchers: dict[BrokerId, ReplicaFetcher] = {}
        self._by_name: dict[TopicPartition, Follower] = {}
        self._stopped = False

    def follow(self, follower: Follower) -> None:
        """Copy a partition from its leader, and from no other broker any more."""
        self.leave(follower.name)
        self._by_name[follower.name] = follower
        if follower.leader < 0 or self._stopped:
            return
        fetcher = self._fetchers.get(follower.leader)
        if fetcher is None:
            fetcher = self._fetchers[follower.leader] = ReplicaFetcher(
                follower.leader,
                self._host,
                self._settings,
                self._connector,
                self.throttle,
                self._truncations,
            )
        fetcher.add(follower)

    def leave(self, name: TopicPartition) -> None:
        """Stop copying this partition."""
        follower = self._by_name.pop(name, None)
        fetcher = None if follower is None else self._fetchers.get(follower.leader)
        if follower is not None and fetcher is not None:
            fetcher.remove(follower.topic_id, name.partition)

    def settle(self, name: TopicPartition) -> None:
        """Wait until the log of a partition is not being truncated any more: this broker is about
        to lead it."""
        self._truncations.settle(name)

    def _log_start_moved(self, name: TopicPartition) -> None:
        """Report a new log start to the leader, which may wait for it (DeleteRecords)."""
        follower = self._by_name.get(name)
        fetcher = None if follower is None else self._fetchers.get(follower.leader)
        if follower is not None and fetcher is not None:
            fetcher.touch(follower)

    def reconnect(self, leader: BrokerId | None = None) -> None:
        """Drop the connection to a leader that lost its registration; or, without a leader, every
        connection, because this broker lost its own."""
        for fetcher in self._fetchers.values():
            if leader is None or fetcher.leader == leader:
                fetcher.reconnect()

    def following(self) -> Iterable[Follower]:
        return self._by_name.values()

    async def stop(self) -> None:
        """Copy nothing any more, whatever there is to follow: this broker leaves the cluster."""
        self._stopped = True
        tasks = [fetcher.stop() for fetcher in self._fetchers.values()]
        self._fetchers.clear()
        self._by_name.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._truncations.finished()
        await self.log_starts.finished()
