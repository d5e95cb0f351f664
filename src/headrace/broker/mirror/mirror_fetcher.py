"""Copies partitions of mirror topics from one broker of a link's source, as a consumer does."""

from typing import Protocol

import structlog

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.mirror.mirror_follower import MirrorFollower, MirrorStopped
from headrace.broker.mirror.source_cluster import SourceCluster
from headrace.broker.peer.connection import PeerConnection, PeerLost
from headrace.broker.replica.fetcher import Key, ReplicaFetcher
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.log_truncations import LogTruncations
from headrace.broker.replica.replica_host import ReplicaHost
from headrace.broker.replica.replication_throttle import ReplicationThrottle
from headrace.model.error import HeadraceError, NotLeader, UnexpectedAppendOffset
from headrace.model.ids import BrokerId
from headrace.wire.error_code import ErrorCode, error_name
from headrace.wire.fetch_request import FetchPartition, FetchRequest
from headrace.wire.fetch_response import FetchPartitionResult

log = structlog.get_logger(__name__)

_CONSUMER = -1
# What is fetched is appended on the event loop: so much at a time, and one batch of any size.
_RESPONSE_BYTES = 4 * 1024 * 1024
_PARTITION_BYTES = 1024 * 1024
_LARGEST_RESPONSE_BYTES = 256 * 1024 * 1024
_REFUSED_REST_SECONDS = 1.0


class MirrorOwner(Protocol):
    """The link that a fetcher works for."""

    def lost(self) -> None:
        """Look for the leaders again: one of them is gone, or leads something else."""

    def out_of_range(self, follower: MirrorFollower) -> None:
        """Find out where the source starts and ends, and go on or stop."""

    def stop(self, follower: MirrorFollower, reason: str) -> None:
        """Copy this partition no more."""


class MirrorFetcher(ReplicaFetcher):
    """One task and one connection, as of a follower's; its fetches are a consumer's."""

    def __init__(
        self,
        leader: BrokerId,
        host: ReplicaHost,
        settings: BrokerSettings,
        source: SourceCluster,
        throttle: ReplicationThrottle,
        truncations: LogTruncations,
        owner: MirrorOwner,
    ) -> None:
        self._source = source
        self._owner = owner
        super().__init__(leader, host, settings, source, throttle, truncations)
        self._min_bytes = 1
        self._max_bytes = _RESPONSE_BYTES
        self._partition_max_bytes = _PARTITION_BYTES

    @property
    def _replica_id(self) -> int:
        return _CONSUMER

    @property
    def _replica_epoch(self) -> int:
        return _CONSUMER

    async def _connect(self) -> PeerConnection:
        self._begin_session()
        connection = await self._source.connect(self.leader, limit_bytes=_LARGEST_RESPONSE_BYTES)
        try:
            self._version = await self._source.fetch_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _backoff_after(self, error: PeerLost, *, connected: bool) -> float:
        self._owner.lost()
        return self._backoff_seconds

    def _learn(self, sent: bytes, request: FetchRequest) -> None:
        """The fast path is for followers of this cluster."""

    def _next_request(self, follower: Follower) -> FetchPartition:
        return super()._next_request(follower)._replace(log_start_offset=-1)

    def _apply(self, follower: Follower, result: FetchPartitionResult[memoryview]) -> int:
        assert isinstance(follower, MirrorFollower)
        key = (follower.topic_id, follower.name.partition)
        if result.diverging_epoch is not None:
            epoch, end = result.diverging_epoch
            self._owner.stop(
                follower,
                f"the source was truncated to offset {end} (leader epoch {epoch}), and the mirror "
                f"has records up to {follower.log.log_end_offset}",
            )
        elif result.error_code == ErrorCode.offset_out_of_range:
            self._resting[key] = self._loop.time() + _REFUSED_REST_SECONDS
            self._owner.out_of_range(follower)
        elif result.error_code:
            log.info(
                "mirror_refused",
                partition=str(follower.name),
                reason=error_name(result.error_code),
            )
            self._resting[key] = self._loop.time() + _REFUSED_REST_SECONDS
            self._owner.lost()
        else:
            records = result.records if result.records is not None else memoryview(b"")
            return follower.append(records, result.high_watermark, result.log_start_offset)
        return 0

    def _not_copied(
        self,
        key: Key,
        follower: Follower,
        result: FetchPartitionResult[memoryview],
        error: HeadraceError,
    ) -> None:
        assert isinstance(follower, MirrorFollower)
        self._resting[key] = self._loop.time() + self._backoff_seconds
        if isinstance(error, (MirrorStopped, UnexpectedAppendOffset)):
            self._owner.stop(follower, str(error))
        elif not isinstance(error, NotLeader):
            log.error("partition_not_copied", partition=str(follower.name), reason=str(error))
