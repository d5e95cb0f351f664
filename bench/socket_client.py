"""A client that costs next to nothing: the same ready-made Produce request, over bare sockets.

What it measures is the broker. One process sends for all connections, from one thread.
"""

import select
import socket
import time
from contextlib import ExitStack
from struct import Struct

from headrace.testing.readiness import wait_until
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from headrace.wire.produce_response import read_produce_response
from testkit.sample.batch import sample_batch

_VERSION = 11  # the newest with topic names in it that needs no transaction
_SIZE = Struct(">i")
_BODY_AT = 4 + 4 + 1  # size, correlation id, no tags
_STALL_SECONDS = 10.0


def one_record_request(topic: str, partition: int, *, value_bytes: int = 100) -> bytes:
    """A whole Produce request with acks=1 and a single record."""
    batch = sample_batch(b"x" * value_bytes, timestamp_ms=time.time_ns() // 1_000_000)
    rows = [ProducePartition(partition, memoryview(batch))]
    request = ProduceRequest(None, 1, 30_000, [ProduceTopic(topic, None, rows)])
    return b"".join(pack_produce_request(_VERSION, 1, "bench", request))


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), _STALL_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def error_code(answer: bytes) -> int:
    """Of the only partition."""
    response = read_produce_response(_VERSION, memoryview(answer), _BODY_AT)
    return response.topics[0].partitions[0].error_code


def round_trip(sock: socket.socket, request: bytes) -> bytes:
    """The answer, size included."""
    sock.sendall(request)
    answer = sock.recv(4096)
    while len(answer) < 4 or len(answer) < 4 + _SIZE.unpack_from(answer)[0]:
        more = sock.recv(4096)
        if not more:
            raise ConnectionError("the broker closed the connection")
        answer += more
    return answer


def latencies_us(address: str, topic: str, *, count: int) -> list[float]:
    """One record at a time over one connection."""
    request = one_record_request(topic, 0)
    taken = []
    with connect(address) as sock:
        _until_led(sock, request)
        for number in range(-count // 10, count):
            start = time.perf_counter_ns()
            round_trip(sock, request)
            if number >= 0:
                taken.append((time.perf_counter_ns() - start) / 1000)
    return taken


def requests_per_second(
    address: str, topic: str, *, connections: int, partitions: int, seconds: float
) -> tuple[float, int]:
    """Every connection sends its next request when it has its answer; the rate and the count."""
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        clients: dict[int, tuple[socket.socket, bytes]] = {}
        for number in range(connections):
            sock = stack.enter_context(connect(address))
            request = one_record_request(topic, number % partitions)
            _until_led(sock, request)
            poll.register(sock, select.EPOLLIN)
            clients[sock.fileno()] = sock, request
        for sock, request in clients.values():
            sock.send(request)
        done = 0
        start = time.perf_counter()
        stop = start + seconds
        while time.perf_counter() < stop:
            ready = poll.poll(_STALL_SECONDS)
            if not ready:
                raise AssertionError(f"no connection was answered in {_STALL_SECONDS:g} s")
            for fd, _ in ready:
                sock, request = clients[fd]
                # The answer is a hundred bytes: it comes whole.
                answer = sock.recv(4096)
                if len(answer) < 4 or len(answer) != 4 + _SIZE.unpack_from(answer)[0]:
                    raise AssertionError(f"{len(answer)} bytes came instead of an answer")
                sock.send(request)
            done += len(ready)
        taken = time.perf_counter() - start
        for sock, _ in clients.values():
            sock.recv(4096)
    return done / taken, done


def accepts(address: str, topic: str) -> bool:
    """Whether the broker takes a record for this topic now."""
    try:
        with connect(address) as sock:
            return error_code(round_trip(sock, one_record_request(topic, 0))) == 0
    except OSError:
        return False


def _until_led(sock: socket.socket, request: bytes) -> None:
    """Kafka names a new partition's leader a moment before that broker will lead it."""
    wait_until(lambda: error_code(round_trip(sock, request)) == 0, what="a record that is taken")
