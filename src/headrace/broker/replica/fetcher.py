"""Copies partitions from the brokers that lead them, with the Fetch API, as any consumer does.

One task and one connection a leader. A fetch goes out as soon as the last one's answer is in the
logs: its offsets are what tells the leader how far this follower has come. Fetches are incremental
(KIP-227): a partition is named again only when its offset or epoch has changed.

Rule 1: an error of one partition is that partition's alone: it rests and is tried again.
Rule 2: an error of the connection, or of the session, begins both anew.
Rule 3: what comes for a partition that was taken away meanwhile, or has another epoch by now, is
dropped.
Rule 4: a leader whose machine refuses connections, twice, has no process any more. That is told at
once (`gone`): the cluster need not wait for the end of its session to choose others.
Rule 5: on a connection that a cut went through without a word nothing may come for a long time
after it: TCP tries again after twice as long each time. So one is given up with the answer that
does not come while a follower counts as in sync, and when either broker was counted out.
"""

import asyncio
from collections.abc import Callable, Iterable
from uuid import UUID

import structlog

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.peer.connection import PeerConnection, PeerLost, PeerRefused
from headrace.broker.peer.connector import PeerDenied, PeerWay
from headrace.broker.replica.fast_follower import FastFollower
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.throttle import ReplicationThrottle, names_replica
from headrace.cluster.broker import BrokerRecord
from headrace.model.error import HeadraceError
from headrace.model.ids import BrokerId, TopicPartition
from headrace.replication.divergence import Divergence
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headrace.wire.fetch_response import FetchPartitionResult, FetchResponse

log = structlog.get_logger(__name__)

_VERSION = 17
# A partition whose leader has not heard yet that it leads: word takes some milliseconds.
_REST_SECONDS = 0.05
_ONE_BATCH_BYTES = 1 << 30
_THROTTLED_REST_SECONDS = 0.5
_REFUSALS = 2
_REFUSED_REST_SECONDS = 0.1

Key = tuple[UUID, int]
FindBroker = Callable[[BrokerId], BrokerRecord | None]
Gone = Callable[[BrokerRecord], None]


class ReplicaFetcher:
    """All that this broker copies from one leader."""

    def __init__(
        self,
        leader: BrokerId,
        settings: BrokerSettings,
        way: PeerWay,
        find: FindBroker,
        epoch: Callable[[], int],
        copied: Callable[[int], None],
        gone: Gone,
        throttle: ReplicationThrottle,
    ) -> None:
        self.leader = leader
        self._settings = settings
        self._way = way
        self._find = find
        self._epoch = epoch
        self._copied = copied
        self._gone = gone
        self._throttle = throttle
        self._behind: set[Key] = set()
        self._refusals = 0
        self._followers: dict[Key, Follower] = {}
        self._resting: dict[Key, float] = {}
        self._sent: dict[Key, FetchPartition] = {}
        # What the next fetch may have to name: looking at all of them each time would cost more
        # than the copying, where a broker has thousands.
        self._touched: set[Key] = set()
        self._wait_ms = int(settings["replica.fetch.wait.max.ms"])
        patience_ms = min(
            settings["replica.socket.timeout.ms"], settings["replica.lag.time.max.ms"]
        )
        self._answer_seconds = (self._wait_ms + int(patience_ms)) / 1000
        self._min_bytes = int(settings["replica.fetch.min.bytes"])
        self._max_bytes = int(settings["replica.fetch.response.max.bytes"])
        self._partition_max_bytes = int(settings["replica.fetch.max.bytes"])
        self._session_id = 0
        self._session_epoch = 0
        self._lane = FastFollower()
        self._connection: PeerConnection | None = None
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._task = self._loop.create_task(self._run())

    def add(self, follower: Follower) -> None:
        key = (follower.topic_id, follower.name.partition)
        self._followers[key] = follower
        self._lane.forget()
        self._resting.pop(key, None)
        self._touched.add(key)
        self._changed.set()

    def remove(self, topic_id: UUID, index: int) -> None:
        self._followers.pop((topic_id, index), None)
        self._lane.forget()
        self._behind.discard((topic_id, index))
        self._resting.pop((topic_id, index), None)
        self._touched.add((topic_id, index))

    @property
    def idle(self) -> bool:
        return not self._followers

    def reconnect(self) -> None:
        """Rule 5."""
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
                tell = log.debug if connection is None else log.info
                tell("lost a leader", leader=self.leader, reason=str(error))
                await asyncio.sleep(self._backoff_after(error, connected=connection is not None))
            except Exception as error:
                log.error("copying failed", leader=self.leader, exc_info=error)
                await asyncio.sleep(self._backoff_seconds)
            finally:
                self._connection = None
                if connection is not None:
                    connection.close()

    @property
    def _backoff_seconds(self) -> float:
        return float(self._settings["replica.fetch.backoff.ms"]) / 1000

    def _backoff_after(self, error: PeerLost, *, connected: bool) -> float:
        """Rule 4: look again soon, to be sure."""
        if connected:
            self._refusals = 0
            return min(_REFUSED_REST_SECONDS, self._backoff_seconds)
        if not isinstance(error, PeerRefused):
            self._refusals = 0
            return self._backoff_seconds
        self._refusals += 1
        record = self._find(self.leader)
        if self._refusals == _REFUSALS and record is not None:
            self._gone(record)
        return self._backoff_seconds if self._refusals >= _REFUSALS else _REFUSED_REST_SECONDS

    async def _something_to_do(self) -> None:
        while not self._followers:
            self._changed.clear()
            await self._changed.wait()

    async def _connect(self) -> PeerConnection:
        self._begin_session()
        return await self._way.connect(self.leader, limit_bytes=_ONE_BATCH_BYTES)

    async def _follow(self, connection: PeerConnection) -> None:
        """Ask, and go on from answer to answer until there is nothing left to follow."""
        connection.short_way = self._go_on
        self._ask(connection)
        failure = await connection.lost
        if failure is not None:
            raise failure

    def _ask(self, connection: PeerConnection) -> None:
        if not self._followers:
            connection.close()
        if connection.closed:
            return
        asked, request = self._request()
        if not asked and not self._sent:
            self._loop.call_later(_REST_SECONDS, self._ask, connection)
            return
        sent = connection.fetch(
            _VERSION,
            request,
            self._answer_seconds,
            lambda response: self._answered(connection, response),
        )
        if asked == 1:
            self._learn(sent, request)

    def _learn(self, sent: bytes, request: FetchRequest) -> None:
        """Fetches like this one may go the short way from now on."""
        [topic] = request.topics
        if topic.topic_id is not None:
            follower = self._followers.get((topic.topic_id, topic.partitions[0].partition))
            if follower is not None:
                self._lane.learn(sent, request, follower)

    def _go_on(self, correlation_id: int, frame: memoryview) -> bytes | None:
        """The short way from an answer to the next request; None, and nothing has happened."""
        if self._touched or self._resting or not self._session_id:
            return None
        next_epoch = self._session_epoch + 1
        try:
            copied = self._lane.serve(
                frame, correlation_id, self._session_id, next_epoch, self._epoch()
            )
        except Exception as error:
            # The long way will fail, too, and end the connection.
            log.error("copying failed", leader=self.leader, exc_info=error)
            copied = None
        if copied is None:
            return None
        topic_id, size, wanted, request = copied
        self._session_epoch = next_epoch
        self._sent[topic_id, wanted.partition] = wanted
        self._copied(size)
        return request

    def _answered(self, connection: PeerConnection, response: FetchResponse) -> None:
        try:
            self._take_all(response)
        except Exception as error:
            log.error("copying failed", leader=self.leader, exc_info=error)
            connection.fail("what it sent could not be copied")
        else:
            self._ask(connection)

    def _take_all(self, response: FetchResponse) -> None:
        if response.error_code:
            # The leader forgot the session: name everything again.
            self._begin_session()
            return
        self._session_id = response.session_id
        self._session_epoch = self._session_epoch + 1 if response.session_id else 0
        if not response.session_id:
            self._begin_session()
        size = 0
        for topic in response.topics:
            for result in topic.partitions:
                if topic.topic_id is not None:
                    size += self._take((topic.topic_id, result.partition), result)
        if size:
            self._copied(size)

    # -- asking

    def _begin_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._lane.forget()
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
            if follower is not None and self._must_wait(key, follower):
                self._resting[key] = self._loop.time() + _THROTTLED_REST_SECONDS
                follower = None
            if follower is None:
                if self._sent.pop(key, None) is not None:
                    gone.setdefault(key[0], []).append(key[1])
                continue
            wanted = self._wanted(follower)
            if self._sent.get(key) != wanted:
                self._sent[key] = wanted
                changed.setdefault(key[0], []).append(wanted)
                count += 1
        self._touched.clear()
        return count, FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=0,
            topics=[FetchTopic(None, topic, each) for topic, each in changed.items()],
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            forgotten=[ForgottenTopic(None, topic, tuple(each)) for topic, each in gone.items()],
            replica_id=self._settings.node_id,
            replica_epoch=self._epoch(),
        )

    def _must_wait(self, key: Key, follower: Follower) -> bool:
        return key in self._behind and self._is_throttled(follower) and self._throttle.exceeded

    def _is_throttled(self, follower: Follower) -> bool:
        listed = follower.log.config.follower_replication_throttled_replicas
        return names_replica(listed, follower.name.partition, self._settings.node_id)

    def _wanted(self, follower: Follower) -> FetchPartition:
        return FetchPartition(
            partition=follower.name.partition,
            current_leader_epoch=follower.leader_epoch,
            fetch_offset=follower.log.log_end_offset,
            last_fetched_epoch=follower.last_epoch,
            log_start_offset=follower.log.log_start_offset,
            max_bytes=self._partition_max_bytes,
        )

    # -- taking

    def _take(self, key: Key, result: FetchPartitionResult[memoryview]) -> int:
        follower, asked = self._followers.get(key), self._sent.get(key)
        self._touched.add(key)
        if follower is None or asked is None:
            return 0
        if asked.current_leader_epoch != follower.leader_epoch:
            return 0
        try:
            return self._apply(follower, result)
        except HeadraceError as error:
            log.error("cannot copy", partition=str(follower.name), reason=str(error))
            self._resting[key] = self._loop.time() + self._backoff_seconds
            return 0

    def _apply(self, follower: Follower, result: FetchPartitionResult[memoryview]) -> int:
        if result.diverging_epoch is not None:
            follower.cut(Divergence(*result.diverging_epoch))
        elif result.error_code == ErrorCode.offset_out_of_range:
            follower.start_over(result.log_start_offset)
        elif result.error_code == ErrorCode.cluster_authorization_failed:
            raise PeerDenied("the leader lets others copy: put this broker's user into super.users")
        elif result.error_code:
            # Not the leader (yet, or any more): the cluster's state will say, or has said.
            self._rest((follower.topic_id, follower.name.partition))
        else:
            records = result.records if result.records is not None else b""
            size = follower.append(records, result.high_watermark, result.log_start_offset)
            self._note_lag(follower, result.high_watermark, size)
            return size
        return 0

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


class ReplicaFetchers:
    """The fetchers of a broker, one for each leader it follows."""

    def __init__(
        self,
        settings: BrokerSettings,
        way: PeerWay,
        find: FindBroker,
        epoch: Callable[[], int],
        copied: Callable[[int], None],
        gone: Gone,
        throttle: ReplicationThrottle,
    ) -> None:
        self._settings = settings
        self._way = way
        self._find = find
        self._epoch = epoch
        self._copied = copied
        self._gone = gone
        self.throttle = throttle
        self._fetchers: dict[BrokerId, ReplicaFetcher] = {}
        self._by_name: dict[TopicPartition, Follower] = {}
        self._stopped = False

    def follow(self, follower: Follower) -> None:
        """Copy a partition from its leader, and from nobody else."""
        self.leave(follower.name)
        self._by_name[follower.name] = follower
        if follower.leader < 0 or self._stopped:
            return
        fetcher = self._fetchers.get(follower.leader)
        if fetcher is None:
            fetcher = self._fetchers[follower.leader] = ReplicaFetcher(
                follower.leader,
                self._settings,
                self._way,
                self._find,
                self._epoch,
                self._copied,
                self._gone,
                self.throttle,
            )
        fetcher.add(follower)

    def leave(self, name: TopicPartition) -> None:
        """Copy this partition no more."""
        follower = self._by_name.pop(name, None)
        fetcher = None if follower is None else self._fetchers.get(follower.leader)
        if follower is not None and fetcher is not None:
            fetcher.remove(follower.topic_id, name.partition)

    def reconnect(self, leader: BrokerId | None = None) -> None:
        """To a leader that was counted out; or to all, because this broker was."""
        for fetcher in self._fetchers.values():
            if leader is None or fetcher.leader == leader:
                fetcher.reconnect()

    def following(self) -> Iterable[Follower]:
        return self._by_name.values()

    async def stop(self) -> None:
        """Copy nothing any more, whatever there is to follow: this broker leaves."""
        self._stopped = True
        tasks = [fetcher.stop() for fetcher in self._fetchers.values()]
        self._fetchers.clear()
        self._by_name.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
