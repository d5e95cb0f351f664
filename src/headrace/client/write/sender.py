"""Sends batches to the leaders of their partitions, several requests at a time to each leader.

Theory of operation. There is no thread: the thread that writes also sends, and receives the
responses that have arrived. The kernel's socket buffers and the brokers work meanwhile, so a caller
that keeps writing waits only when `memory_bytes` are held or every leader has `max_in_flight`
requests.

Rule 1: a request has at most one batch per partition; a connection responds in order.
Rule 2: when a connection fails, all batches in flight on it fail. Their queues send them again.
Rule 3: the first batch that cannot be written for good raises `WriteFailed`, and the sender sends
no more until `discard` is called.
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
from headrace.client.network.idle_connection import IDLE
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

# From this version on the broker adds a partition to the transaction on its first write (KIP-890).
_FIRST_ADDS_PARTITIONS: Final = 12

Sent = list[tuple[PartitionQueue, PendingBatch]]


@dataclass(slots=True)
class _Leader:
    """One broker and the requests it has not answered, oldest first."""

    connection: BrokerConnection
    requests: deque[tuple[PendingRequest, Sent]] = field(default_factory=deque)


class Sender:
    """The queues of one writer and the connections they share. One thread at a time may use it.

    Args:
        pool: for metadata and producer ids. Produce requests have connections of their own, so
            that no other response comes in between.
        enlist: called with partitions before they are written to, to add them to a transaction.
        on_acknowledged: called with each batch and its base offset, -1 if the broker did not say.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        *,
        acks: int,
        max_in_flight: int,
        transactional_id: str | None = None,
        enlist: Callable[[Iterable[TopicPartition]], None] | None = None,
        on_acknowledged: Callable[[TopicPartition, PendingBatch, int], None] | None = None,
    ) -> None:
        self.identity: ProducerIdentity = NO_IDENTITY
        self.adds_partitions = True
        self.held_bytes = 0
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self._pool = pool
        self._acks = acks
        self._max_in_flight = max_in_flight
        self._transactional_id = transactional_id
        self._enlist = enlist
        self._on_acknowledged = on_acknowledged
        self._busy: dict[TopicPartition, PartitionQueue] = {}
        self._leaders: dict[int, _Leader] = {}
        self._metadata: Metadata | None = None
        self._stale = False
        self._failure: ClientError | None = None
        self._discarding = False

    def metadata(self, topic: str, *, fresh: bool = False) -> Metadata:
        """Return the metadata of a topic, fetched at most once unless it must be `fresh`."""
        known = self._metadata
        if known is None or topic not in known.topics or self._stale or fresh:
            topics = {topic, *(partition.topic for partition in self.queues)}
            known = self._metadata = self._pool.metadata(topics)
            self._stale = False
        return known

    def push(self, partition: TopicPartition, batches: Iterable[PendingBatch]) -> None:
        """Queue batches. The caller calls `hold` for their shared buffer."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(
                partition,
                self._pool.settings,
                self.identity,
                transactional=self._transactional_id is not None,
            )
        for batch in batches:
            queue.push(batch)
        self._busy[partition] = queue

    def hold(self, size_bytes: int) -> None:
        """Count the memory of encoded batches until they are acknowledged or discarded."""
        self.held_bytes += size_bytes

    @property
    def is_idle(self) -> bool:
        """Whether every batch is acknowledged or discarded."""
        return not self._busy

    def raise_failure(self) -> None:
        """Raise the error that has ended this sender, if there is one."""
        if self._failure is not None:
            raise self._failure

    def pump(self) -> bool:
        """Receive the responses that have arrived and send what may be sent, without waiting.

        Returns:
            Whether anything was received or sent.

        Raises:
            WriteFailed, ProducerFenced: see `raise_failure`.
        """
        self.raise_failure()
        received = False
        while self._receive(0):
            received = True
        sent = self._send()
        self.raise_failure()
        return received or sent

    def wait(self) -> None:
        """Send what may be sent; if that is nothing, wait for a response or for the next retry.

        Raises:
            WriteFailed, ProducerFenced: see `raise_failure`.
        """
        self.raise_failure()
        if not self._send() and self._busy:
            self._receive(self._seconds_to_wait())
        self.raise_failure()

    def discard(self) -> bool:
        """Discard every batch that is not acknowledged, and forget the failure.

        Waits for the batches in flight: they must not arrive after the end of the transaction.

        Returns:
            Whether sequences are missing now, so that the identity cannot be used further.
        """
        self._discarding = True
        broken = self._failure is not None
        for queue in self._busy.values():
            broken |= self._drop(queue)
        while any(leader.requests for leader in self._leaders.values()):
            self._receive(self._seconds_to_wait())
            for queue in self._busy.values():
                broken |= self._drop(queue)
        self._busy.clear()
        self._failure = None
        self._discarding = False
        return broken

    def restart(self, identity: ProducerIdentity) -> None:
        """Continue with another identity. No batch may wait or be in flight."""
        self.identity = identity
        for queue in self.queues.values():
            queue.start_over(identity)

    def close(self) -> None:
        """Disconnect. Batches that are not acknowledged may be written or not."""
        leaders, self._leaders = self._leaders, {}
        for leader in leaders.values():
            IDLE.release(leader.connection)

    # -- sending

    def _send(self) -> bool:
        sent = False
        while True:
            now = time.monotonic()
            by_leader = self._ready(now)
            progress = False
            for node_id, queues in by_leader.items():
                progress |= self._send_to(node_id, queues, now)
            if not progress:
                return sent
            sent = True

    def _ready(self, now: float) -> dict[int, list[PartitionQueue]]:
        """Return the queues that may send, by leader."""
        queues = [queue for queue in self._busy.values() if queue.is_ready(now)]
        if not queues or self._failure is not None:
            return {}
        if self._stale or self._metadata is None:
            self._refresh(queues[0])
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in queues:
            error = partition_error(self._fetched_metadata, queue.partition)
            if error is None:
                node_id = self._fetched_metadata.leader(queue.partition)
                if queue.may_go_to(node_id):
                    by_leader.setdefault(node_id, []).append(queue)
            else:
                self._stale = True
                self._apply(queue, queue.postpone(now), error)
        return by_leader

    @property
    def _fetched_metadata(self) -> Metadata:
        assert self._metadata is not None
        return self._metadata

    def _refresh(self, queue: PartitionQueue) -> None:
        topics = {partition.topic for partition in self.queues}
        try:
            self._metadata = self._pool.metadata(topics)
        except (ConnectionLost, Unreachable) as error:
            self._failure = WriteFailed(queue.partition, error)
            raise self._failure from error
        self._stale = False

    def _send_to(self, node_id: int, queues: list[PartitionQueue], now: float) -> bool:
        leader = self._leaders.get(node_id)
        if leader is not None and len(leader.requests) >= self._max_in_flight:
            return False
        try:
            if leader is None or leader.connection.closed:
                leader = self._leaders[node_id] = _Leader(self._connect(node_id))
        except (ConnectionLost, Unreachable) as error:
            self._stale = True
            for queue in queues:
                self._apply(queue, queue.postpone(now), error)
            return False
        chosen = self._choose(queues)
        if self._enlist is not None:
            try:
                self._enlist([queue.partition for queue in chosen])
            except ClientError as error:
                self._failure = error
                return False
        sent = [(queue, queue.next_batch(node_id)) for queue in chosen]
        try:
            self._request(leader, sent)
        except ConnectionLost as error:
            self._fail_connection(leader, sent, error)
        except BaseException:  # Ctrl-C: a program that catches it may flush again
            self._fail_connection(leader, sent, ConnectionLost("sending was interrupted"))
            raise
        return True

    def _connect(self, node_id: int) -> BrokerConnection:
        broker = self._fetched_metadata.brokers.get(node_id)
        if broker is None:
            raise Unreachable(f"broker {node_id} is not there at the moment")
        return IDLE.open(broker.address, self._pool.settings)

    def _choose(self, queues: list[PartitionQueue]) -> list[PartitionQueue]:
        """Choose as many queues as fit into one request, and put them last so that none starves."""
        chosen: list[PartitionQueue] = []
        size = 0
        for queue in queues:
            size += len(queue.waiting[0].data)
            if chosen and size > REQUEST_BYTES:
                break
            chosen.append(queue)
        for queue in chosen:
            self._start_over_if_forgotten(queue)
            self._busy[queue.partition] = self._busy.pop(queue.partition)
        return chosen

    def _start_over_if_forgotten(self, queue: PartitionQueue) -> None:
        if queue.forgotten:
            queue.start_over(queue.identity.next or idempotent_identity(self._pool))

    def _request(self, leader: _Leader, sent: Sent) -> None:
        topics: dict[str, ProduceTopic] = {}
        for queue, batch in sent:
            name, index = queue.partition.topic, queue.partition.partition
            topic = topics.setdefault(name, ProduceTopic(name, None, []))
            topic.partitions.append(ProducePartition(index, batch.data))
        timeout_ms = self._pool.settings.request_timeout_ms
        request = ProduceRequest(
            self._transactional_id, self._acks, timeout_ms, list(topics.values())
        )
        highest = FIRST_TOPIC_ID - 1 if self.adds_partitions else _FIRST_ADDS_PARTITIONS - 1
        if self._acks == 0:
            leader.connection.send_only(ApiKey.PRODUCE, request, highest=highest)
            for queue, batch in sent:
                self._acknowledge(queue, batch, -1)
            return
        pending = leader.connection.begin(
            ApiKey.PRODUCE, request, highest=highest, wait_ms=timeout_ms
        )
        leader.requests.append((pending, sent))

    # -- receiving

    def _receive(self, seconds: float) -> bool:
        """Receive responses that have arrived, or that arrive within so many seconds."""
        waiting = [leader for leader in self._leaders.values() if leader.requests]
        for leader in waiting:
            if leader.connection.closed:
                self._fail_connection(
                    leader, [], ConnectionLost("waiting for an answer was interrupted")
                )
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
        """Wait for responses. `poll` and not `select`, which takes no descriptor above 1023."""
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
            self._fail_connection(leader, [], error)
            return
        except MalformedResponse as error:
            self._fail_connection(leader, [], ConnectionLost(str(error)))
            return
        leader.requests.popleft()
        by_partition = {queue.partition: (queue, batch) for queue, batch in sent}
        now = time.monotonic()
        for topic in answer.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name or "", result.partition)
                queue, batch = by_partition.pop(partition, (None, None))
                if queue is None or batch is None:
                    continue
                code = error_code(result.error_code)
                if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                    known = code is ErrorCode.none
                    self._acknowledge(queue, batch, result.base_offset if known else -1)
                else:
                    refusal = BrokerError(code, _advice(code, result.error_message))
                    self._refuse(queue, batch, refusal, now)
        for queue, batch in by_partition.values():
            silent = BrokerError(ErrorCode.unknown_server_error, "the broker did not say")
            self._refuse(queue, batch, silent, now)

    def _acknowledge(self, queue: PartitionQueue, batch: PendingBatch, base_offset: int) -> None:
        queue.acknowledge(batch, base_offset)
        if self._on_acknowledged is not None:
            self._on_acknowledged(queue.partition, batch, base_offset)
        self.held_bytes -= batch.buffer.release()
        if queue.is_empty:
            self._busy.pop(queue.partition, None)

    def _refuse(
        self, queue: PartitionQueue, batch: PendingBatch, error: ClientError, now: float
    ) -> None:
        self._stale = True
        self._apply(queue, queue.refuse(batch, error, now), error)

    def _apply(self, queue: PartitionQueue, decision: RetryDecision, error: ClientError) -> None:
        if decision is RetryDecision.RETRY or self._failure is not None:
            return
        if decision is RetryDecision.FENCED:
            assert self._transactional_id is not None
            self._failure = ProducerFenced(self._transactional_id)
        else:
            self._failure = WriteFailed(queue.partition, error)

    def _fail_connection(self, leader: _Leader, sent: Sent, error: ClientError) -> None:
        """Fail all batches in flight on a connection. Whether the broker has them is unknown."""
        leader.connection.close()
        now = time.monotonic()
        requests = [each for _, each in leader.requests] + [sent]
        leader.requests.clear()
        for each in requests:
            for queue, batch in each:
                self._refuse(queue, batch, error, now)

    def _drop(self, queue: PartitionQueue) -> bool:
        dropped = queue.discard()
        for batch in dropped:
            self.held_bytes -= batch.buffer.release()
        return any(batch.tries for batch in dropped)

    def _seconds_to_wait(self) -> float:
        """Return the seconds until the next retry is due or a response is late."""
        now = time.monotonic()
        moments = [
            leader.requests[0][0].deadline for leader in self._leaders.values() if leader.requests
        ]
        if not self._discarding:
            moments += [queue.retry_at for queue in self._busy.values() if queue.retry_at > now]
        return max(0.0, min(moments, default=now) - now)


def _advice(code: ErrorCode, message: str | None) -> str | None:
    if code in (ErrorCode.message_too_large, ErrorCode.record_list_too_large):
        reason = message or "the batch is larger than the topic's max.message.bytes"
        return f"{reason}; give the writer a smaller batch_bytes"
    return message
