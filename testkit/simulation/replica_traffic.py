"""Fetches between simulated brokers: what followers ask for, and how leaders answer.

The leader's end follows `broker.fetch.follower_fetch`; the follower's end applies what comes with
the real code (`InlineFetcher`). One fetch per leader is under way, for all that is copied from it.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from headrace.broker.error_mapping import code_of
from headrace.broker.membership.cluster_member import ClusterMember
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import TopicTable
from headrace.cluster.broker import BrokerRecord
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import HeadraceError
from headrace.model.ids import BrokerId, TopicPartition
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition
from headrace.wire.fetch_response import DivergingEpoch, FetchPartitionResult
from testkit.simulation.inline_fetcher import InlineFetcher
from testkit.simulation.virtual_clock import VirtualClock
from testkit.simulation.virtual_loop import VirtualLoop

_TICK_MS = 40
_FETCH_AGAIN_MS = 120
_POLL_MS = 25
_WAIT_MS = 90
_READ_BYTES = 1 << 20

Asked = list[tuple[UUID, FetchPartition]]
Answered = list[tuple[UUID, FetchPartitionResult[memoryview]]]


class TrafficHost(Protocol):
    """What traffic needs of the simulator."""

    now_ms: int
    random: Random
    brokers: "dict[int, Any]"

    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None: ...
    def shows(self, broker: Any, name: TopicPartition, log: PartitionLog) -> None: ...


class Replica(Protocol):
    """A broker that leads and follows."""

    broker_id: BrokerId
    serves: bool
    clock: VirtualClock
    loop: VirtualLoop
    topics: TopicTable
    members: dict[BrokerId, BrokerRecord]
    membership: ClusterMember
    fetcher: InlineFetcher

    @property
    def broker_epoch(self) -> int: ...
    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...


class _Fetch(NamedTuple):
    """The fetch from one leader that counts."""

    number: int
    asked_ms: int


class ReplicaTraffic:
    """Both ends of one broker."""

    def __init__(self, host: TrafficHost, broker: Replica) -> None:
        self._host = host
        self._broker = broker
        self._fetches: dict[BrokerId, _Fetch] = {}
        self._count = 0
        # What was last sent to each follower: high watermark, last stable offset, log start.
        self._sent: dict[tuple[BrokerId, UUID, int], tuple[Any, ...]] = {}

    def start(self) -> None:
        self._broker.after(_TICK_MS, self._tick)
        self.roles_changed()

    def stop(self) -> None:
        self._fetches.clear()
        self._sent.clear()

    def _tick(self) -> None:
        self._broker.after(_TICK_MS, self._tick)
        for leader in self._leaders():
            fetch = self._fetches.get(leader)
            if fetch is None or self._host.now_ms - fetch.asked_ms > _FETCH_AGAIN_MS:
                self._fetch(leader)

    def roles_changed(self) -> None:
        """Fetch from new leaders at once."""
        for leader in self._leaders():
            self._fetch(leader)

    def _leaders(self) -> list[BrokerId]:
        found = dict.fromkeys(each.leader for each in self._broker.fetcher.following())
        return [each for each in found if each >= 0 and each != self._broker.broker_id]

    # -- following

    def _fetch(self, leader: BrokerId) -> None:
        broker, host = self._broker, self._host
        followed = [
            each
            for each in broker.fetcher.following()
            if each.leader == leader and not each.log.closed
        ]
        if not followed:
            return
        self._count += 1
        number = self._count
        self._fetches[leader] = _Fetch(number, host.now_ms)
        asked: Asked = [(each.topic_id, broker.fetcher.request(each)) for each in followed]
        epoch, peer = broker.broker_epoch, host.brokers[leader]

        def take(answered: Answered) -> None:
            fetch = self._fetches.get(leader)
            if fetch is not None and fetch.number == number:
                self._take(leader, followed, asked, answered)

        def reply(answered: Answered) -> None:
            host.send(leader, broker.broker_id, lambda: take(answered))

        def ask() -> None:
            peer.traffic.answer(asked, broker.broker_id, epoch, reply)

        host.send(broker.broker_id, leader, ask)

    def _take(
        self, leader: BrokerId, followed: list[Follower], asked: Asked, answered: Answered
    ) -> None:
        broker = self._broker
        wanted = {(topic_id, each.partition): each for topic_id, each in asked}

        def copy() -> None:
            for topic_id, result in answered:
                requested = wanted[topic_id, result.partition]
                broker.fetcher.copy(leader, topic_id, requested, result)

        broker.loop.run(copy)
        for each in followed:
            now = broker.topics.follower(None, each.topic_id, each.name.partition)
            if now is not None:
                self._host.shows(broker, now.name, now.log)
        if any(result.error_code for _, result in answered):
            broker.after(_POLL_MS, lambda: self._poll(leader))
        else:
            self._fetch(leader)

    def _poll(self, leader: BrokerId) -> None:
        fetch = self._fetches.get(leader)
        if fetch is not None and self._host.now_ms - fetch.asked_ms >= _POLL_MS:
            self._fetch(leader)

    # -- leading

    def answer(
        self, asked: Asked, replica: BrokerId, broker_epoch: int, reply: Callable[[Answered], None]
    ) -> None:
        """Answer a follower's fetch, after a while if there is nothing new; never when this broker
        is down."""
        if not self._broker.serves:
            return
        answered = self._read_all(asked, replica, broker_epoch)
        if any(self._is_news(replica, topic_id, result) for topic_id, result in answered):
            reply(answered)
            return
        waiting = [
            partition
            for topic_id, requested in asked
            if (partition := self._broker.topics.find(None, topic_id, requested.partition))
        ]

        def read_again() -> None:
            if self._broker.serves:
                reply(self._read_all(asked, replica, broker_epoch))

        self._count += 1
        waiter = _Waiter(self._count, waiting, lambda: self._broker.after(0, read_again))
        self._broker.after(_WAIT_MS, waiter.finish)

    def _read_all(self, asked: Asked, replica: BrokerId, broker_epoch: int) -> Answered:
        answered: Answered = []

        def read() -> None:
            for topic_id, requested in asked:
                result = self._read(topic_id, requested, replica, broker_epoch)
                answered.append((topic_id, result))

        self._broker.loop.run(read)
        return answered

    def _is_news(
        self, replica: BrokerId, topic_id: UUID, result: FetchPartitionResult[memoryview]
    ) -> bool:
        key, offsets = (replica, topic_id, result.partition), result[2:5]
        known, self._sent[key] = self._sent.get(key), offsets
        news = result.error_code or result.records_bytes or result.diverging_epoch is not None
        return bool(news) or known != offsets

    def _read(
        self, topic_id: UUID, requested: FetchPartition, replica: BrokerId, broker_epoch: int
    ) -> FetchPartitionResult[memoryview]:
        index, broker = requested.partition, self._broker
        partition = broker.topics.find(None, topic_id, index)
        if partition is None:
            return FetchPartitionResult(index, ErrorCode.not_leader_or_follower)
        code = partition.check_epoch(requested.current_leader_epoch)
        if code or replica not in partition.state.replicas:
            return FetchPartitionResult(index, code or ErrorCode.not_leader_or_follower)
        log = partition.log
        parted = partition.divergence(requested.last_fetched_epoch, requested.fetch_offset)
        if parted is not None:
            diverging = DivergingEpoch(*parted)
            return FetchPartitionResult(index, 0, *_offsets(log), diverging_epoch=diverging)
        if partition.must_start_over(requested.last_fetched_epoch, requested.fetch_offset):
            return FetchPartitionResult(index, ErrorCode.offset_out_of_range, *_offsets(log))
        try:
            piece = log.read(
                requested.fetch_offset,
                self._host.random.choice([1, 150, _READ_BYTES]),
                max_offset=log.log_end_offset,
                at_least_one=True,
            ).read()
        except HeadraceError as error:
            return FetchPartitionResult(index, code_of(error), *_offsets(log))
        self._fetched(partition, replica, requested.fetch_offset, broker_epoch)
        partition.follower_started(replica, requested.log_start_offset)
        return FetchPartitionResult(index, 0, *_offsets(log), len(piece), memoryview(piece))

    def _fetched(
        self, partition: Partition, replica: BrokerId, offset: int, broker_epoch: int
    ) -> None:
        """Count how far a follower has come, as `Broker.follower_fetched` does."""
        broker = self._broker
        isr = partition.follower_fetched(
            replica, offset, now_ms=broker.clock.monotonic_ms(), broker_epoch=broker_epoch
        )
        member = broker.members.get(replica)
        if isr is not None and member is not None and member.epoch == broker_epoch:
            broker.membership.propose_isr(partition, isr)


class _Waiter:
    """A fetch that waits for the partitions to grow, or for what their followers hear of them."""

    def __init__(
        self, number: int, partitions: list[Partition], answer: Callable[[], None]
    ) -> None:
        self._number = number
        self._partitions = partitions
        self._answer = answer
        self._done = False
        for each in partitions:
            each.add_waiter(self)
            each.add_replica_waiter(self)

    def __hash__(self) -> int:
        # Partitions keep waiters in sets, whose order must come from the seed.
        return self._number

    def grew(self, size_bytes: int) -> None:
        self.finish()

    def finish(self) -> None:
        if self._done:
            return
        self._done = True
        for each in self._partitions:
            each.remove_waiter(self)
            each.remove_replica_waiter(self)
        self._answer()


def _offsets(log: PartitionLog) -> tuple[int, int, int]:
    return log.high_watermark, log.last_stable_offset, log.log_start_offset
