"""Copies partitions from the brokers that lead them, with the Fetch API, as any consumer does.

One task and one connection per leader. The next fetch goes out as soon as the last one's records
are in the logs: its offsets tell the leader how far this follower has come. Fetches are incremental
(KIP-227): a partition is named again only when its offset or epoch has changed.

Rule 1: an error of one partition concerns that partition alone: it rests and is fetched again.
Rule 2: after an error of the connection, or of the session, both begin again.
Rule 3: records for a partition that was removed meanwhile, or has another epoch or another log end
by now, are dropped. (A compacted log has gaps, so the log alone would not see that some are
missing.)
Rule 4: a leader whose machine refuses connections, twice, seems to have no process any more. The
fetcher reports it at once (`ReplicaHost.broker_gone`), and again as long as that lasts: the cluster
need not wait for the end of its session to elect other leaders.
Rule 5: a silent network cut leaves TCP retransmitting for minutes. A connection is dropped when a
fetch outlives the time for which a follower counts as in sync, and when either broker has lost its
registration.
Rule 6: a log that is being truncated rests until that is done (`log_truncations`). While any
partition rests, a fetch waits at the leader no longer than until the first of them has rested.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import structlog

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.peer.connection import PeerConnection, PeerLost, PeerRefused
from headrace.broker.peer.connector import PeerDenied
from headrace.broker.replica.fast_follower import FastFollower
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.log_truncations import LogTruncations
from headrace.broker.replica.replica_host import ReplicaHost
from headrace.broker.replica.replication_throttle import ReplicationThrottle, names_replica
from headrace.model.error import HeadraceError, UnexpectedAppendOffset
from headrace.model.ids import BrokerId
from headrace.replication.divergence import Divergence
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headrace.wire.fetch_response import FetchPartitionResult, FetchResponse

log = structlog.get_logger(__name__)

_VERSION = 17
# For a partition whose leader does not know yet that it leads: the change of the cluster's state
# reaches every broker within milliseconds.
_REST_SECONDS = 0.05
# For a log that is being truncated: that takes some 10 ms.
_TRUNCATING_REST_SECONDS = 0.02
_SHORTEST_WAIT_MS = 10
_ONE_BATCH_BYTES = 1 << 30
_THROTTLED_REST_SECONDS = 0.5
_REFUSALS = 2
_REFUSED_REST_SECONDS = 0.1

Key = tuple[UUID, int]


class Connector(Protocol):
    """Makes connections to leaders."""

    async def connect(self, broker_id: BrokerId, *, limit_bytes: int) -> PeerConnection: ...


class ReplicaFetcher:
    """Copies the partitions that one broker leads."""

    def __init__(
        self,
        leader: BrokerId,
        host: ReplicaHost,
        settings: BrokerSettings,
        connector: Connector,
        throttle: ReplicationThrottle,
        truncations: LogTruncations,
    ) -> None:
        self.leader = leader
        self._host = host
        self._settings = settings
        self._connector = connector
        self._throttle = throttle
        self._truncations = truncations
        self._behind: set[Key] = set()
        self._refusals = 0
        self._followers: dict[Key, Follower] = {}
        self._resting: dict[Key, float] = {}
        self._sent: dict[Key, FetchPartition] = {}
        # The partitions that the next fetch may have to name. To compare all of them for every
        # fetch would cost more than the copying, where a broker has thousands.
        self._touched: set[Key] = set()
        self._wait_ms = int(settings["replica.fetch.wait.max.ms"])
        patience_ms = min(
            settings["replica.socket.timeout.ms"], settings["replica.lag.time.max.ms"]
        )
        self._answer_seconds = (self._wait_ms + int(patience_ms)) / 1000
        self._min_bytes = int(settings["replica.fetch.min.bytes"])
        self._max_bytes = int(settings["replica.fetch.response.max.bytes"])
        self._partition_max_bytes = int(settings["replica.fetch.max.bytes"])
        self._version = _VERSION
        self._session_id = 0
        self._session_epoch = 0
        self._fast_path = FastFollower()
        self._connection: PeerConnection | None = None
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._task = self._loop.create_task(self._run())

    def add(self, follower: Follower) -> None:
        key = (follower.topic_id, follower.name.partition)
        self._followers[key] = follower
        self._fast_path.forget()
        self._resting.pop(key, None)
        self._touched.add(key)
        self._changed.set()

    def remove(self, topic_id: UUID, index: int) -> None:
        self._followers.pop((topic_id, index), None)
        self._fast_path.forget()
        self._behind.discard((topic_id, index))
        self._resting.pop((topic_id, index), None)
        self._touched.add((topic_id, index))

    def touch(self, follower: Follower) -> None:
        """Name a partition in the next fetch if its offsets differ from what the leader knows."""
        self._touched.add((follower.topic_id, follower.name.partition))

    @property
    def idle(self) -> bool:
        return not self._followers

    def reconnect(self) -> None:
        """Drop the connection; the next fetch opens a new one (rule 5)."""
        if self._connection is not None:
            self._connection.fail("it was cut off")

    def stop(self) -> "asyncio.Task[None]":
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while True:
            await self._something_to_do()
            connection: PeerConnection | None = None
            try:
                connection = self._connection = await self._connect()
                await self._follow(connection)
            except PeerLost as error:
                write = log.debug if connection is None else log.info
                write("leader_lost", leader=self.leader, reason=str(error))
                await asyncio.sleep(self._backoff_after(error, connected=connection is not None))
            except Exception as error:
                log.error("copying_failed", leader=self.leader, exc_info=error)
                await asyncio.sleep(self._backoff_seconds)
            finally:
                self._connection = None
                if connection is not None:
                    connection.close()

    @property
    def _backoff_seconds(self) -> float:
        return float(self._settings["replica.fetch.backoff.ms"]) / 1000

    def _backoff_after(self, error: PeerLost, *, connected: bool) -> float:
        """Return how long to wait before the next attempt: after a refusal only shortly, to be
        sure that the leader is gone (rule 4)."""
        if connected:
            self._refusals = 0
            return min(_REFUSED_REST_SECONDS, self._backoff_seconds)
        if not isinstance(error, PeerRefused):
            self._refusals = 0
            return self._backoff_seconds
        self._refusals += 1
        record = self._host.members.get(self.leader)
        if self._refusals % _REFUSALS == 0 and record is not None:
            self._host.broker_gone(record)
        return self._backoff_seconds if self._refusals >= _REFUSALS else _REFUSED_REST_SECONDS

    async def _something_to_do(self) -> None:
        while not self._followers:
            self._changed.clear()
            await self._changed.wait()

    async def _connect(self) -> PeerConnection:
        self._begin_session()
        return await self._connector.connect(self.leader, limit_bytes=_ONE_BATCH_BYTES)

    async def _follow(self, connection: PeerConnection) -> None:
        """Fetch, response after response, until there is nothing left to follow."""
        self._send_fetch(connection)
        failure = await connection.lost
        if failure is not None:
            raise failure

    def _send_fetch(self, connection: PeerConnection) -> None:
        if not self._followers:
            connection.close()
        if connection.closed:
            return
        asked, request = self._request()
        if not asked and not self._sent:
            self._loop.call_later(_REST_SECONDS, self._send_fetch, connection)
            return
        sent = connection.fetch(
            self._version,
            request,
            self._answer_seconds,
            lambda response: self._on_response(connection, response),
            fast_path=self._next_fetch,
        )
        if asked == 1:
            self._learn(sent, request)

    def _learn(self, sent: bytes, request: FetchRequest) -> None:
        """Let the fast path serve the responses to fetches like this one."""
        [topic] = request.topics
        if topic.topic_id is not None:
            follower = self._followers.get((topic.topic_id, topic.partitions[0].partition))
            if follower is not None:
                self._fast_path.learn(sent, request, follower)

    def _next_fetch(self, correlation_id: int, frame: memoryview) -> bytes | None:
        """Append a response by the fast path and return the next request; or return None, and
        nothing has happened."""
        if self._touched or self._resting or not self._session_id:
            return None
        next_epoch = self._session_epoch + 1
        try:
            copied = self._fast_path.serve(
                frame, correlation_id, self._session_id, next_epoch, self._host.broker_epoch
            )
        except Exception as error:
            # The slow path fails as well, and ends the connection.
            log.error("copying_failed", leader=self.leader, exc_info=error)
            copied = None
        if copied is None:
            return None
        topic_id, size, wanted, request = copied
        self._session_epoch = next_epoch
        self._sent[topic_id, wanted.partition] = wanted
        self._host.metrics.replicated_bytes += size
        return request

    def _on_response(self, connection: PeerConnection, response: FetchResponse) -> None:
        try:
            self._apply_response(response)
        except Exception as error:
            log.error("copying_failed", leader=self.leader, exc_info=error)
            connection.fail("its response could not be copied")
        else:
            self._send_fetch(connection)

    def _apply_response(self, response: FetchResponse) -> None:
        if response.error_code:
            # The leader forgot the session: name everything again.
            self._begin_session()
            return
        self._session_id = response.session_id
        self._session_epoch = self._session_epoch + 1 if response.session_id else 0
        size = 0
        for topic in response.topics:
            for result in topic.partitions:
                if topic.topic_id is not None:
                    size += self._copy((topic.topic_id, result.partition), result)
        if not response.session_id:
            # No session is to be had: name everything each time.
            self._begin_session()
        if size:
            self._host.metrics.replicated_bytes += size

    # -- requests

    def _begin_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._fast_path.forget()
        self._sent.clear()
        self._touched.update(self._followers)

    def _request(self) -> "tuple[int, FetchRequest]":
        if self._resting:
            now = self._loop.time()
            rested = [key for key, until in self._resting.items() if until <= now]
            for key in rested:
                del self._resting[key]
            self._touched.update(rested)
        changed: dict[UUID, list[FetchPartition]] = {}
        gone: dict[UUID, list[int]] = {}
        count = 0
        for key in self._touched:
            follower = None if key in self._resting else self._followers.get(key)
            if follower is not None and follower.log.closed:
                # The leader would take its old end for a replica in sync.
                follower = None
            if follower is not None and self._truncations.under_way(follower.name):
                self._resting[key] = self._loop.time() + _TRUNCATING_REST_SECONDS
                follower = None
            if follower is not None and self._must_wait(key, follower):
                self._resting[key] = self._loop.time() + _THROTTLED_REST_SECONDS
                follower = None
            if follower is None:
                if self._sent.pop(key, None) is not None:
                    gone.setdefault(key[0], []).append(key[1])
                continue
            wanted = self._next_request(follower)
            if self._sent.get(key) != wanted:
                self._sent[key] = wanted
                changed.setdefault(key[0], []).append(wanted)
                count += 1
        self._touched.clear()
        return count, FetchRequest(
            max_wait_ms=self._wait_ms if not self._resting else self._short_wait_ms(),
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=0,
            topics=[FetchTopic(None, topic, each) for topic, each in changed.items()],
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            forgotten=[ForgottenTopic(None, topic, tuple(each)) for topic, each in gone.items()],
            replica_id=self._replica_id,
            replica_epoch=self._replica_epoch,
        )

    @property
    def _replica_id(self) -> int:
        """As which replica it fetches; -1 as a consumer."""
        return self._settings.node_id

    @property
    def _replica_epoch(self) -> int:
        return self._host.broker_epoch

    def _short_wait_ms(self) -> int:
        """Return for how long a fetch may wait while some partitions rest (rule 6)."""
        left_ms = round((min(self._resting.values()) - self._loop.time()) * 1000)
        return min(self._wait_ms, max(_SHORTEST_WAIT_MS, left_ms))

    def _must_wait(self, key: Key, follower: Follower) -> bool:
        return key in self._behind and self._is_throttled(follower) and self._throttle.exceeded

    def _is_throttled(self, follower: Follower) -> bool:
        listed = follower.log.config.follower_replication_throttled_replicas
        return names_replica(listed, follower.name.partition, self._settings.node_id)

    def _next_request(self, follower: Follower) -> FetchPartition:
        return FetchPartition(
            partition=follower.name.partition,
            current_leader_epoch=follower.leader_epoch,
            fetch_offset=follower.next_offset,
            last_fetched_epoch=follower.last_epoch,
            log_start_offset=follower.log.log_start_offset,
            max_bytes=self._partition_max_bytes,
        )

    # -- responses

    def _copy(self, key: Key, result: FetchPartitionResult[memoryview]) -> int:
        follower, asked = self._followers.get(key), self._sent.get(key)
        self._touched.add(key)
        if follower is None or asked is None:
            return 0
        if asked.current_leader_epoch != follower.leader_epoch:
            return 0
        if asked.fetch_offset != follower.next_offset:
            return 0
        if self._truncations.under_way(follower.name):
            return 0
        try:
            return self._apply(follower, result)
        except HeadraceError as error:
            self._not_copied(key, follower, result, error)
            return 0

    def _not_copied(
        self,
        key: Key,
        follower: Follower,
        result: FetchPartitionResult[memoryview],
        error: HeadraceError,
    ) -> None:
        records = b"" if result.records is None else bytes(result.records)
        if isinstance(error, UnexpectedAppendOffset) and follower.log.spans_start(records):
            self._truncate(follower, lambda: follower.restart_with(records))
            return
        log.error("partition_not_copied", partition=str(follower.name), reason=str(error))
        self._resting[key] = self._loop.time() + self._backoff_seconds

    def _apply(self, follower: Follower, result: FetchPartitionResult[memoryview]) -> int:
        if result.diverging_epoch is not None:
            diverging = Divergence(*result.diverging_epoch)
            self._truncate(follower, lambda: follower.truncate(diverging))
        elif result.error_code == ErrorCode.offset_out_of_range:
            self._truncate(follower, lambda: follower.start_over(result.log_start_offset))
        elif result.error_code == ErrorCode.cluster_authorization_failed:
            raise PeerDenied(
                "the leader does not let this broker copy: put its user into super.users"
            )
        elif result.error_code:
            # It is not the leader (yet, or any more): the cluster's state names the leader.
            self._rest((follower.topic_id, follower.name.partition))
        else:
            records = result.records if result.records is not None else b""
            size = follower.append(records, result.high_watermark, result.log_start_offset)
            self._note_lag(follower, result.high_watermark, size)
            return size
        return 0

    def _truncate(self, follower: Follower, truncate: Callable[[], None]) -> None:
        """Let a thread change the log; until then it is not fetched (rule 6)."""
        key = (follower.topic_id, follower.name.partition)

        def failed() -> None:
            self._resting[key] = self._loop.time() + self._backoff_seconds

        self._fast_path.forget()
        self._truncations.begin(follower.name, truncate, failed)

    def _note_lag(self, follower: Follower, high_watermark: int, size: int) -> None:
        key = (follower.topic_id, follower.name.partition)
        if follower.log.log_end_offset < high_watermark:
            self._behind.add(key)
        else:
            self._behind.discard(key)
        if size and self._is_throttled(follower):
            self._throttle.record(size)

    def _rest(self, key: Key) -> None:
        self._resting[key] = self._loop.time() + _REST_SECONDS
