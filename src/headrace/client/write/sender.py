"""Batches out to the leaders of their partitions, several requests at a time to each.

Theory of operation. There is no thread: whoever writes also sends, and reads the answers that have
come. The kernel's socket buffers and the brokers work meanwhile, so a caller that goes on writing
waits only when `memory_bytes` are held or every leader has as many requests as it may have.

Rule 1: a request has at most one batch for each partition; a connection answers in order.
Rule 2: a connection that fails fails everything on its way over it. The lanes send it again.
Rule 3: the first batch that cannot be written for good is a `WriteFailed`, and the sender sends no
more until it is told to `discard`.
"""

import select
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from headrace.client.error import (
    BrokerError,
    ClientError,
    ConnectionLost,
    ProducerFenced,
    Unreachable,
    WriteFailed,
)
from headrace.client.network.connection import BrokerConnection, PendingRequest
from headrace.client.network.leader_call import partition_error
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.write.partition_queue import PartitionQueue, RetryDecision
from headrace.client.write.pending_batch import PendingBatch
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity, idempotent_identity
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error import MalformedResponse
from headrace.wire.error_code import ErrorCode, error_code
from headrace.wire.produce_request import (
    FIRST_TOPIC_ID,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from headrace.wire.produce_response import ProduceResponse

REQUEST_BYTES: Final = 8 * 1024 * 1024
"""Far below the 100 MiB of a broker's socket.request.max.bytes, far above one batch."""

# From here on a broker adds a partition to the transaction itself when it is written to (KIP-890).
_FIRST_ADDS_PARTITIONS: Final = 12

Sent = list[tuple[PartitionQueue, PendingBatch]]


@dataclass(slots=True)
class _Leader:
    """One broker and the requests it has not answered, the oldest first."""

    connection: BrokerConnection
    requests: deque[tuple[PendingRequest, Sent]] = field(default_factory=deque)


class Sender:
    """The lanes of one writer and the connections they share. Not for several threads.

    Args:
        pool: for questions only; produce requests have connections of their own, on which no other
            answer can come between.
        enlist: called with partitions before they are written to: a transaction wants to know.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        *,
        acks: int,
        max_in_flight: int,
        transactional_id: str | None = None,
        enlist: Callable[[Iterable[TopicPartition]], None] | None = None,
    ) -> None:
        self.identity: ProducerIdentity = NO_IDENTITY
        self.adds_partitions = True
        self.held_bytes = 0
        self.lanes: dict[TopicPartition, PartitionQueue] = {}
        self._pool = pool
        self._acks = acks
        self._max_in_flight = max_in_flight
        self._transactional_id = transactional_id
        self._enlist = enlist
        self._busy: dict[TopicPartition, PartitionQueue] = {}
        self._leaders: dict[int, _Leader] = {}
        self._metadata: Metadata | None = None
        self._stale = False
        self._failure: ClientError | None = None
        self._discarding = False

    def metadata(self, topic: str, *, fresh: bool = False) -> Metadata:
        """What is known of a topic, without asking twice unless it must be `fresh`."""
        known = self._metadata
        if known is None or topic not in known.topics or self._stale or fresh:
            topics = {topic, *(partition.topic for partition in self.lanes)}
            known = self._metadata = self._pool.metadata(topics)
            self._stale = False
        return known

    def push(self, partition: TopicPartition, batches: Iterable[PendingBatch]) -> None:
        """Take batches over. Their room is the caller's to `hold`."""
        lane = self.lanes.get(partition)
        if lane is None:
            lane = self.lanes[partition] = PartitionQueue(
                partition,
                self._pool.settings,
                self.identity,
                transactional=self._transactional_id is not None,
            )
        for batch in batches:
            lane.push(batch)
        self._busy[partition] = lane

    def hold(self, size_bytes: int) -> None:
        self.held_bytes += size_bytes

    @property
    def is_idle(self) -> bool:
        return not self._busy

    def check(self) -> None:
        """Raise what has ended this sender, if anything has."""
        if self._failure is not None:
            raise self._failure

    def pump(self) -> bool:
        """Take the answers that are there and send what may be sent, without waiting.

        Returns:
            Whether there was anything to do.

        Raises:
            WriteFailed, ProducerFenced: see `check`.
        """
        self.check()
        received = False
        while self._receive(0):
            received = True
        sent = self._send()
        self.check()
        return received or sent

    def wait(self) -> None:
        """As `pump`, but not before something has happened."""
        if not self.pump() and self._busy:
            self._receive(self._seconds_to_wait())

    def discard(self) -> bool:
        """Give up everything that was not acknowledged, and be as new for the next transaction.

        What is on its way is waited for: it must not arrive after the transaction's end.

        Returns:
            Whether sequences are missing now, so that the identity cannot be used further.
        """
        self._discarding = True
        broken = self._failure is not None
        for lane in self._busy.values():
            broken |= self._drop(lane)
        while any(leader.requests for leader in self._leaders.values()):
            self._receive(self._seconds_to_wait())
            for lane in self._busy.values():
                broken |= self._drop(lane)
        self._busy.clear()
        self._failure = None
        self._discarding = False
        return broken

    def restart(self, identity: ProducerIdentity) -> None:
        """Go on as somebody else. Nothing may wait or be on its way."""
        self.identity = identity
        for lane in self.lanes.values():
            lane.start_over(identity)

    def close(self) -> None:
        for leader in self._leaders.values():
            leader.connection.close()

    # -- sending

    def _send(self) -> bool:
        sent = False
        while True:
            now = time.monotonic()
            by_leader = self._ready(now)
            progress = False
            for node_id, lanes in by_leader.items():
                progress |= self._send_to(node_id, lanes, now)
            if not progress:
                return sent
            sent = True

    def _ready(self, now: float) -> dict[int, list[PartitionQueue]]:
        """The lanes that may send, by the leader they would send to."""
        lanes = [lane for lane in self._busy.values() if lane.is_ready(now)]
        if not lanes or self._failure is not None:
            return {}
        if self._stale or self._metadata is None:
            self._refresh(lanes[0])
        found: dict[int, list[PartitionQueue]] = {}
        for lane in lanes:
            error = partition_error(self._known, lane.partition)
            if error is None:
                node_id = self._known.leader(lane.partition)
                if lane.may_go_to(node_id):
                    found.setdefault(node_id, []).append(lane)
            else:
                self._stale = True
                self._judge(lane, lane.postpone(now), error)
        return found

    @property
    def _known(self) -> Metadata:
        assert self._metadata is not None
        return self._metadata

    def _refresh(self, lane: PartitionQueue) -> None:
        topics = {partition.topic for partition in self.lanes}
        try:
            self._metadata = self._pool.metadata(topics)
        except (ConnectionLost, Unreachable) as error:
            self._failure = WriteFailed(lane.partition, error)
            raise self._failure from error
        self._stale = False

    def _send_to(self, node_id: int, lanes: list[PartitionQueue], now: float) -> bool:
        leader = self._leaders.get(node_id)
        if leader is not None and len(leader.requests) >= self._max_in_flight:
            return False
        try:
            if leader is None or leader.connection.closed:
                leader = self._leaders[node_id] = _Leader(self._connect(node_id))
        except (ConnectionLost, Unreachable) as error:
            self._stale = True
            for lane in lanes:
                self._judge(lane, lane.postpone(now), error)
            return False
        chosen = self._choose(lanes)
        if self._enlist is not None:
            try:
                self._enlist([lane.partition for lane in chosen])
            except ClientError as error:
                self._failure = error
                return False
        sent = [(lane, lane.take(node_id)) for lane in chosen]
        try:
            self._request(leader, sent)
        except ConnectionLost as error:
            self._lost(leader, sent, error)
        except BaseException:  # Ctrl-C: whoever catches it may flush again
            self._lost(leader, sent, ConnectionLost("sending was interrupted"))
            raise
        return True

    def _connect(self, node_id: int) -> BrokerConnection:
        broker = self._known.brokers.get(node_id)
        if broker is None:
            raise Unreachable(f"broker {node_id} is not there at the moment")
        return BrokerConnection(broker.address, self._pool.settings)

    def _choose(self, lanes: list[PartitionQueue]) -> list[PartitionQueue]:
        """As many as one request takes. Those go to the end of the line, so that nobody starves."""
        chosen: list[PartitionQueue] = []
        size = 0
        for lane in lanes:
            size += len(lane.waiting[0].data)
            if chosen and size > REQUEST_BYTES:
                break
            chosen.append(lane)
        for lane in chosen:
            self._start_over_if_forgotten(lane)
            self._busy[lane.partition] = self._busy.pop(lane.partition)
        return chosen

    def _start_over_if_forgotten(self, lane: PartitionQueue) -> None:
        if lane.forgotten:
            lane.start_over(lane.identity.next or idempotent_identity(self._pool))

    def _request(self, leader: _Leader, sent: Sent) -> None:
        topics: dict[str, ProduceTopic] = {}
        for lane, batch in sent:
            name, index = lane.partition.topic, lane.partition.partition
            topic = topics.setdefault(name, ProduceTopic(name, None, []))
            topic.partitions.append(ProducePartition(index, batch.data))
        timeout_ms = self._pool.settings.request_timeout_ms
        request = ProduceRequest(
            self._transactional_id, self._acks, timeout_ms, list(topics.values())
        )
        highest = FIRST_TOPIC_ID - 1 if self.adds_partitions else _FIRST_ADDS_PARTITIONS - 1
        if self._acks == 0:
            leader.connection.tell(ApiKey.PRODUCE, request, highest=highest)
            for lane, batch in sent:
                self._acknowledge(lane, batch, -1)
            return
        pending = leader.connection.begin(
            ApiKey.PRODUCE, request, highest=highest, wait_ms=timeout_ms
        )
        leader.requests.append((pending, sent))

    # -- receiving

    def _receive(self, seconds: float) -> bool:
        """Take the answers that are there, or come within so many seconds."""
        waiting = [leader for leader in self._leaders.values() if leader.requests]
        for leader in waiting:
            if leader.connection.closed:
                self._lost(leader, [], ConnectionLost("waiting for an answer was interrupted"))
                return True
        if not waiting:
            if seconds > 0:
                time.sleep(seconds)
            return False
        ready = [leader for leader in waiting if leader.connection.holds_bytes]
        ready = ready or self._select(waiting, seconds)
        late = time.monotonic()
        for leader in waiting:
            if leader in ready or leader.requests[0][0].deadline <= late:
                self._finish(leader)
        return bool(ready)

    def _select(self, waiting: list[_Leader], seconds: float) -> list[_Leader]:
        """`poll`, not `select`, which knows no descriptor above 1023."""
        by_descriptor = {leader.connection.fileno(): leader for leader in waiting}
        poll = select.poll()
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        return [by_descriptor[descriptor] for descriptor, _ in poll.poll(seconds * 1000)]

    def _finish(self, leader: _Leader) -> None:
        pending, sent = leader.requests[0]
        try:
            answer: ProduceResponse = leader.connection.finish(pending)
        except ConnectionLost as error:
            self._lost(leader, [], error)
            return
        except MalformedResponse as error:
            self._lost(leader, [], ConnectionLost(str(error)))
            return
        leader.requests.popleft()
        by_partition = {lane.partition: (lane, batch) for lane, batch in sent}
        now = time.monotonic()
        for topic in answer.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name or "", result.partition)
                lane, batch = by_partition.pop(partition, (None, None))
                if lane is None or batch is None:
                    continue
                code = error_code(result.error_code)
                if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                    known = code is ErrorCode.none
                    self._acknowledge(lane, batch, result.base_offset if known else -1)
                else:
                    refusal = BrokerError(code, _advice(code, result.error_message))
                    self._refuse(lane, batch, refusal, now)
        for lane, batch in by_partition.values():
            silent = BrokerError(ErrorCode.unknown_server_error, "the broker did not say")
            self._refuse(lane, batch, silent, now)

    def _acknowledge(self, lane: PartitionQueue, batch: PendingBatch, base_offset: int) -> None:
        lane.acknowledge(batch, base_offset)
        self.held_bytes -= batch.room.let_go()
        if lane.is_empty:
            self._busy.pop(lane.partition, None)

    def _refuse(
        self, lane: PartitionQueue, batch: PendingBatch, error: ClientError, now: float
    ) -> None:
        self._stale = True
        self._judge(lane, lane.refuse(batch, error, now), error)

    def _judge(self, lane: PartitionQueue, verdict: RetryDecision, error: ClientError) -> None:
        if verdict is RetryDecision.AGAIN or self._failure is not None:
            return
        if verdict is RetryDecision.FENCED:
            assert self._transactional_id is not None
            self._failure = ProducerFenced(self._transactional_id)
        else:
            self._failure = WriteFailed(lane.partition, error)

    def _lost(self, leader: _Leader, sent: Sent, error: ClientError) -> None:
        """Whether the broker has what was on its way is not known."""
        leader.connection.close()
        now = time.monotonic()
        requests = [each for _, each in leader.requests] + [sent]
        leader.requests.clear()
        for each in requests:
            for lane, batch in each:
                self._refuse(lane, batch, error, now)

    def _drop(self, lane: PartitionQueue) -> bool:
        dropped = lane.discard()
        for batch in dropped:
            self.held_bytes -= batch.room.let_go()
        return any(batch.tries for batch in dropped)

    def _seconds_to_wait(self) -> float:
        """Until the next retry is due, or an answer is late."""
        now = time.monotonic()
        moments = [
            leader.requests[0][0].deadline for leader in self._leaders.values() if leader.requests
        ]
        if not self._discarding:
            moments += [lane.retry_at for lane in self._busy.values() if lane.retry_at > now]
        return max(0.0, min(moments, default=now) - now)


def _advice(code: ErrorCode, message: str | None) -> str | None:
    if code in (ErrorCode.message_too_large, ErrorCode.record_list_too_large):
        reason = message or "the batch is larger than the topic's max.message.bytes"
        return f"{reason}; give the writer a smaller batch_bytes"
    return message
