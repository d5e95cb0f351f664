"""Consumers that cost next to nothing: Fetch requests over bare sockets, from one thread.

A reader looks at the heads of the batches it gets, to know where to go on, and at nothing else.
"""

import select
import socket
import time
from contextlib import ExitStack
from struct import Struct

from confluent_kafka.admin import AdminClient, NewTopic

from bench.socket_client import connect, error_code, round_trip
from headrace.testing.readiness import wait_until
from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    pack_fetch_request,
)
from headrace.wire.fetch_response import read_fetch_response
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from testkit.sample.batch import sample_batch

_PRODUCE_VERSION = 11
_FETCH_VERSION = 12  # the newest with topic names in it
_BODY_AT = 4 + 4 + 1  # size, correlation id, no tags
_SIZE = Struct(">i")
_BATCH_HEAD = Struct(">qi")
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23
_BATCH_RECORDS = 150
_RECORD_BYTES = 100
_FETCH_BYTES = 1 << 20
_FILL_WINDOW = 16
_STALL_SECONDS = 30.0


def create_topic(address: str, topic: str, partitions: int, **configs: str) -> None:
    """Create a topic; its partitions may get their leaders a moment later."""
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(topic, partitions, 1, config=configs)]).values():
        done.result(30)


def fill(address: str, topic: str, *, total_bytes: int) -> None:
    """Write batches of about 16 KiB to the only partition, until it has about so many bytes."""
    values = [b"x" * _RECORD_BYTES] * _BATCH_RECORDS
    batch = sample_batch(*values, timestamp_ms=time.time_ns() // 1_000_000)
    rows = [ProducePartition(0, memoryview(batch))]
    content = ProduceRequest(None, 1, 30_000, [ProduceTopic(topic, None, rows)])
    request = b"".join(pack_produce_request(_PRODUCE_VERSION, 1, "bench", content))
    with connect(address) as sock, sock.makefile("rb") as answers:
        wait_until(lambda: error_code(round_trip(sock, request)) == 0, what="a batch that is taken")
        left = max(1, total_bytes // len(batch))
        while left:
            window = min(left, _FILL_WINDOW)
            sock.sendall(request * window)
            for _ in range(window):
                size = answers.read(_SIZE.size)
                if error_code(size + answers.read(_SIZE.unpack(size)[0])):
                    raise AssertionError("the broker refused a batch")
            left -= window


def bytes_per_second(
    address: str,
    topic: str,
    *,
    readers: int,
    pace: float | None = None,
    fetch_bytes: int = _FETCH_BYTES,
) -> float:
    """Read the whole partition with all readers at once; what all of them received, by time.

    Args:
        pace: the most bytes per second to receive with all of them; None for as fast as it goes.
        fetch_bytes: the most bytes in an answer.
    """
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        reading: dict[int, _Reader] = {}
        for _ in range(readers):
            sock = stack.enter_context(connect(address))
            poll.register(sock, select.EPOLLIN)
            reading[sock.fileno()] = _Reader(sock, topic, fetch_bytes)
        start = time.perf_counter()
        for reader in reading.values():
            reader.ask()
        received = 0
        while reading:
            ready = poll.poll(_STALL_SECONDS)
            if not ready:
                raise AssertionError(f"no reader got anything in {_STALL_SECONDS:g} s")
            for fd, _ in ready:
                received += reading[fd].receive()
                if pace is not None:
                    time.sleep(max(0.0, start + received / pace - time.perf_counter()))
                if reading[fd].at_end:
                    poll.unregister(fd)
                    del reading[fd]
        return received / (time.perf_counter() - start)


class _Reader:
    """One consumer: it has one request under way, until it is at the end."""

    def __init__(self, sock: socket.socket, topic: str, fetch_bytes: int) -> None:
        self.at_end = False
        self._sock = sock
        self._topic = topic
        self._offset = 0
        self._fetch_bytes = fetch_bytes
        self._buffer = bytearray(fetch_bytes + _FETCH_BYTES)
        self._held = 0

    def ask(self) -> None:
        wanted = FetchPartition(0, -1, self._offset, -1, -1, self._fetch_bytes)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=0,
            topics=[FetchTopic(self._topic, None, [wanted])],
        )
        self._held = 0
        self._sock.sendall(pack_fetch_request(_FETCH_VERSION, 1, "bench", request))

    def receive(self) -> int:
        """Take what is there; with a whole answer, ask for what comes after it."""
        got = self._sock.recv_into(memoryview(self._buffer)[self._held :])
        if not got:
            raise ConnectionError("the broker closed the connection")
        self._held += got
        if self._held >= 4 and self._held == 4 + _SIZE.unpack_from(self._buffer)[0]:
            self._go_on()
        return got

    def _go_on(self) -> None:
        frame = memoryview(self._buffer)[: self._held]
        partition = read_fetch_response(_FETCH_VERSION, frame, _BODY_AT).topics[0].partitions[0]
        if partition.error_code:
            raise AssertionError(f"the broker answers a fetch with error {partition.error_code}")
        records = partition.records
        at = 0
        while records is not None and at + _LAST_DELTA_AT + 4 <= len(records):
            base, length = _BATCH_HEAD.unpack_from(records, at)
            if at + 12 + length > len(records):
                break  # a broker may cut the last batch
            self._offset = base + _LAST_DELTA.unpack_from(records, at + _LAST_DELTA_AT)[0] + 1
            at += 12 + length
        self.at_end = self._offset >= partition.high_watermark
        if not self.at_end:
            self.ask()
