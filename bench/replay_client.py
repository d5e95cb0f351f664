"""A load generator that costs a small part of what the brokers do: it replays ready-made requests.

Each connection goes to the leader of one partition and has a window of Produce requests under way.
The kernel wakes the generator only when the answers to all of it are there (SO_RCVLOWAT), so a
window costs about three system calls, and its bytes one copy. Answers are counted by their bytes
while it runs; afterwards the partitions are asked for their ends, which must be as many records as
were acknowledged.

Windows are kinder to a broker that reads many requests at once than to one that takes them one by
one, as Apache Kafka does: compare the brokers of one side with each other rather than both sides.
"""

import select
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from bench.socket_client import connect, error_code, round_trip
from headrace.testing.readiness import wait_until
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from testkit.sample.batch import sample_batch

_VERSION = 11
_STALL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is replayed: how many records a request has, and how many requests a window has.

    Attributes:
        limit_bytes: the run ends when so many bytes were sent, if its time is not over before.
    """

    records: int
    window: int
    limit_bytes: int
    value_bytes: int = 100

    def request(self, topic: str, partition: int) -> bytes:
        """Return a whole Produce request with acks=1."""
        values = [b"x" * self.value_bytes] * self.records
        batch = sample_batch(*values, timestamp_ms=time.time_ns() // 1_000_000)
        rows = [ProducePartition(partition, memoryview(batch))]
        content = ProduceRequest(None, 1, 30_000, [ProduceTopic(topic, None, rows)])
        return b"".join(pack_produce_request(_VERSION, 1, "bench", content))


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a run did, and the CPU seconds that it cost here."""

    requests: int
    seconds: float
    cpu_seconds: float


def replay(address: str, topic: str, load: Load, *, seconds: float) -> Replayed:
    """Send to all partitions of a new topic for so long, each to its leader.

    Raises:
        AssertionError: a broker does not answer, or has not stored what it acknowledged.
    """
    admin = AdminClient({"bootstrap.servers": address})
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        connections = [
            stack.enter_context(_Connection(leader, load.request(topic, partition), load.window))
            for partition, leader in enumerate(_leaders(admin, topic))
        ]
        by_descriptor = {each.sock.fileno(): each for each in connections}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        answered = _run(poll, by_descriptor, load.limit_bytes, seconds)
    first = len(connections)  # each has sent one request ahead, to learn the size of an answer
    stored = _stored(admin, topic, len(connections))
    if stored != (answered.requests + first) * load.records:
        raise AssertionError(
            f"{answered.requests + first} requests were acknowledged, and {stored} records stored"
        )
    return answered


def _run(
    poll: select.epoll, connections: dict[int, "_Connection"], limit_bytes: int, seconds: float
) -> Replayed:
    cpu = time.process_time()
    start = time.perf_counter()
    stop = start + seconds
    windows = 0
    window_bytes = max(each.window_bytes for each in connections.values())
    requests = next(iter(connections.values())).window
    for each in connections.values():
        each.send()
    running = len(connections)
    limit = limit_bytes // window_bytes - running
    while running:
        ready = poll.poll(_STALL_SECONDS)
        if not ready:
            raise AssertionError(f"no connection was answered in {_STALL_SECONDS:g} s")
        going_on = windows < limit and time.perf_counter() < stop
        for descriptor, _ in ready:
            connection = connections[descriptor]
            connection.receive()
            windows += 1
            if going_on:
                connection.send()
            else:
                running -= 1
    return Replayed(windows * requests, time.perf_counter() - start, time.process_time() - cpu)


class _Connection:
    """One connection to one leader, with a window of requests that it sends again and again."""

    def __init__(self, address: str, request: bytes, window: int) -> None:
        self.sock = connect(address)
        self.window = window
        self.window_bytes = window * len(request)
        answers: list[bytes] = []

        def taken() -> bool:
            answers.append(round_trip(self.sock, request))
            return error_code(answers[-1]) == 0

        wait_until(taken, what="a batch that is taken")
        self._answer_bytes = window * len(answers[-1])
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._answer_bytes)
        self._buffer = bytearray(self._answer_bytes + 1)
        self._requests = request * window

    def __enter__(self) -> "_Connection":
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()

    def send(self) -> None:
        self.sock.sendall(self._requests)

    def receive(self) -> None:
        received = self.sock.recv_into(self._buffer)
        if received != self._answer_bytes:
            raise AssertionError(f"{received} bytes came instead of {self._answer_bytes}")


def _leaders(admin: AdminClient, topic: str) -> Sequence[str]:
    """Return the address of each partition's leader."""
    found = admin.list_topics(topic, 30)
    partitions = found.topics[topic].partitions
    brokers = [found.brokers[partitions[each].leader] for each in sorted(partitions)]
    return [f"{each.host}:{each.port}" for each in brokers]


def _stored(admin: AdminClient, topic: str, partitions: int) -> int:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, each): latest for each in range(partitions)}
    found = admin.list_offsets(wanted, request_timeout=30).values()
    return sum(int(each.result(60).offset) for each in found)
