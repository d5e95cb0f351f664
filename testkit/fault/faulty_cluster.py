"""A cluster with every fault that a producer may meet.

Some nodes on loopback share the logs of one topic, as if they replicated without delay. They serve
a producer's requests. While `faults` lasts they also move leaders, drop connections before and
after an append, and respond with errors of both kinds (appended or not). Sequences follow Kafka's
rules: the first sequence of an unknown producer may be any, the last five batches are recognized as
duplicates, any other sequence out of order is refused.
"""

import socket
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any

from headrace.client.address import Address
from headrace.records.batch import Batch
from headrace.records.decode import decode
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_request import ProduceRequest
from headrace.wire.produce_response import (
    ProducePartitionResult,
    ProduceTopicResult,
    pack_produce_response,
)
from headrace.wire.request import Request, parse_request
from headrace.wire.response import api_versions_body, pack_response

_REMEMBERED = 5
_NO_APPEND = (ErrorCode.not_enough_replicas, ErrorCode.kafka_storage_error)
_APPENDED = (ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append)


@dataclass
class _Producer:
    epoch: int
    last_sequence: int
    batches: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


@dataclass
class _Log:
    """One partition: its values, its leader, and the state of its producers."""

    leader: int
    values: list[bytes] = field(default_factory=list)
    producers: dict[int, _Producer] = field(default_factory=dict)

    def append(self, data: memoryview) -> tuple[ErrorCode, int]:
        batch = Batch(data)
        batch.validate(from_client=True)
        if batch.producer_id < 0:
            return ErrorCode.none, self._keep(data)
        producer = self.producers.get(batch.producer_id)
        if producer is not None:
            if batch.producer_epoch < producer.epoch:
                return ErrorCode.invalid_producer_epoch, -1
            if batch.producer_epoch > producer.epoch:
                producer = self.producers[batch.producer_id] = _Producer(batch.producer_epoch, -1)
            for sequence, offset in producer.batches:
                if sequence == batch.base_sequence:
                    return ErrorCode.none, offset
            if batch.base_sequence != producer.last_sequence + 1:
                return ErrorCode.out_of_order_sequence_number, -1
        else:
            producer = self.producers[batch.producer_id] = _Producer(batch.producer_epoch, -1)
        offset = self._keep(data)
        producer.last_sequence = batch.last_sequence
        producer.batches.append((batch.base_sequence, offset))
        return ErrorCode.none, offset

    def _keep(self, data: memoryview) -> int:
        offset = len(self.values)
        self.values += decode(data, columns=["value"]).columns["value"].to_pylist()
        return offset


class FaultyCluster:
    """Several nodes with one topic.

    Attributes:
        faults: how many more faults happen, at most one per produce request.
        gate: when set, each node holds back so many responses until all nodes hold as many.

    Example:
        with FaultyCluster("clicks", nodes=2, partitions=4, seed=1, faults=50) as cluster:
            Writer({"bootstrap.servers": cluster.address}, "clicks")
    """

    def __init__(
        self, topic: str, *, nodes: int, partitions: int, seed: int = 0, faults: int = 0
    ) -> None:
        self.topic = topic
        self.faults = faults
        self.gate = 0
        self.logs = [_Log(index % nodes) for index in range(partitions)]
        self._random = Random(seed)
        self._changed = threading.Condition()
        self._held = [0] * nodes
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(nodes)]
        self._next_producer = 1000
        for node, listener in enumerate(self._listeners):
            threading.Thread(target=self._accept, args=(node, listener), daemon=True).start()

    @property
    def address(self) -> str:
        return str(self._address(0))

    def values(self, partition: int) -> list[bytes]:
        with self._changed:
            return list(self.logs[partition].values)

    def _address(self, node: int) -> Address:
        return Address(*self._listeners[node].getsockname()[:2])

    def _accept(self, node: int, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=(node, connection), daemon=True).start()

    def _serve(self, node: int, connection: socket.socket) -> None:
        held: list[bytes] = []
        with connection, suppress(OSError):
            stream = connection.makefile("rb")
            while len(size := stream.read(4)) == 4:
                request = parse_request(stream.read(int.from_bytes(size, "big")))
                response = self._respond(node, request)
                if response is None:
                    return
                if request.api.key is not ApiKey.PRODUCE or not self._holds(node):
                    connection.sendall(response)
                    continue
                held.append(response)
                if len(held) == self.gate:
                    self._wait_for_others()
                    connection.sendall(b"".join(held))

    def _holds(self, node: int) -> bool:
        """Return whether the response to a produce request must wait, and count it."""
        with self._changed:
            if not self.gate or self._held[node] == self.gate:
                return False
            self._held[node] += 1
            self._changed.notify_all()
            return True

    def _wait_for_others(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: min(self._held) >= self.gate, timeout=30)

    def _respond(self, node: int, request: Request) -> bytes | None:
        key, version = request.api.key, request.header.api_version
        number = request.header.correlation_id
        if key is ApiKey.PRODUCE:
            return self._produce(node, version, number, request.body)
        if key is ApiKey.API_VERSIONS:
            body: Any = api_versions_body()
        elif key is ApiKey.METADATA:
            body = self._metadata()
        else:
            assert key is ApiKey.INIT_PRODUCER_ID, key
            self._next_producer += 1
            body = {"producer_id": self._next_producer, "producer_epoch": 0}
        return pack_response(key, version, number, body)

    def _metadata(self) -> dict[str, Any]:
        brokers = [
            {"node_id": node, "host": address.host, "port": address.port}
            for node in range(len(self._listeners))
            if (address := self._address(node))
        ]
        with self._changed:
            partitions = [
                {"partition_index": index, "leader_id": log.leader, "replica_nodes": [log.leader]}
                for index, log in enumerate(self.logs)
            ]
        return {
            "brokers": brokers,
            "controller_id": 0,
            "topics": [{"name": self.topic, "partitions": partitions}],
        }

    def _produce(self, node: int, version: int, number: int, body: ProduceRequest) -> bytes | None:
        with self._changed:
            fault = self._next_fault()
            if fault == "closed before":
                return None
            results = [
                self._append(node, each.partition, each.records, fault)
                for topic in body.topics
                for each in topic.partitions
                if each.records is not None
            ]
        if fault == "closed after":
            return None
        topics = [ProduceTopicResult(self.topic, None, results)]
        return pack_produce_response(version, number, topics)

    def _next_fault(self) -> str:
        if not self.faults or self._random.random() < 0.5:
            return "none"
        self.faults -= 1
        return self._random.choice(
            ("closed before", "closed after", "leader moves", "not appended", "appended")
        )

    def _append(
        self, node: int, index: int, records: memoryview, fault: str
    ) -> ProducePartitionResult:
        log = self.logs[index]
        if fault == "leader moves" and self._random.random() < 0.7:
            log.leader = self._random.randrange(len(self._listeners))
        if log.leader != node:
            return ProducePartitionResult(index, ErrorCode.not_leader_or_follower)
        if fault == "not appended" and self._random.random() < 0.7:
            return ProducePartitionResult(index, self._random.choice(_NO_APPEND))
        code, offset = log.append(records)
        if code is ErrorCode.none and fault == "appended":
            code = self._random.choice(_APPENDED)
        return ProducePartitionResult(index, code, offset)

    def __enter__(self) -> "FaultyCluster":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
