"""Agents side by side with Apache Flume: into topics, from hop to hop, from files.

Each side runs in a process of its own with the same configuration file, into the same Headrace
broker, fed by the same generator. `HEADRACE_BENCH_SCALE` makes the amounts smaller (0.1: a tenth).
The memory of an agent is watched for a minute; `HEADRACE_BENCH_MEMORY_SECONDS=3600` makes it an
hour.
"""

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.row import Row, alternate, median, spread
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import extents
from headrace.client.settings import ClientSettings
from headrace.ingest.event import EventBatch
from headrace.ingest.network.avro_rpc import (
    AvroRequestor,
    AvroResponder,
    AvroStatus,
    answer,
    read_frame,
    write_frame,
)
from headrace.ingest.network.peer_stream import PeerStream
from headrace.ingest.network.tcp_server import TcpServer
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.flume import FlumeAgent
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess

SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
EVENTS = max(10_000, int(600_000 * SCALE))
HOP_EVENTS = max(20_000, int(2_000_000 * SCALE))
HOP_WARM_SECONDS = 3.0  # kernels, and Java's compiler
HOP_SENDERS = 4
FILE_BYTES = max(16 << 20, int((2 << 30) * SCALE))
EVENT_BYTES = 200
PARTITIONS = 2
ROUNDS = 3
TAIL_ROUNDS = 2  # of 2 GiB each, on both sides
HOP_BAR = 400_000
TAIL_BAR = 300
MEMORY_SECONDS = max(5.0, float(os.environ.get("HEADRACE_BENCH_MEMORY_SECONDS", 60 * SCALE)))
MEMORY_BAR = 1.1
# A side that is slow is not given all of the amount: what it did in this time is enough to tell.
SEND_SECONDS = 8.0
TAIL_SECONDS = 40.0
_FLUME_HEAP = ("-Xms1g", "-Xmx1g")
_BATCH = 2000

NETCAT = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = {source}
a1.sources.r1.bind = 127.0.0.1
a1.sources.r1.host = 127.0.0.1
a1.sources.r1.port = {port}
a1.sources.r1.max-line-length = 1000
a1.sources.r1.ack-every-event = false
a1.sources.r1.channels = c1
"""
TAILDIR = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = TAILDIR
a1.sources.r1.filegroups = f
a1.sources.r1.filegroups.f = {folder}/.*log
a1.sources.r1.positionFile = {positions}
a1.sources.r1.batchSize = 10000
a1.sources.r1.channels = c1
"""
TO_TOPIC = """\
a1.channels.c1.type = memory
a1.channels.c1.capacity = 100000
a1.channels.c1.transactionCapacity = 10000
a1.sinks.k1.type = org.apache.flume.sink.kafka.KafkaSink
a1.sinks.k1.kafka.bootstrap.servers = {address}
a1.sinks.k1.kafka.topic = {topic}
a1.sinks.k1.flumeBatchSize = {batch}
a1.sinks.k1.kafka.producer.acks = all
a1.sinks.k1.channel = c1
"""
HOP = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = avro
a1.sources.r1.bind = 127.0.0.1
a1.sources.r1.port = {port}
a1.sources.r1.channels = c1
a1.channels.c1.type = file
a1.channels.c1.checkpointDir = {folder}/checkpoint
a1.channels.c1.dataDirs = {folder}/data
a1.sinks.k1.type = avro
a1.sinks.k1.hostname = 127.0.0.1
a1.sinks.k1.port = {next}
a1.sinks.k1.batch-size = 1000
a1.sinks.k1.channel = c1
"""

Start = Callable[[Path, str], AbstractContextManager[Any]]


def ours(folder: Path, text: str) -> AgentProcess:
    return AgentProcess(folder, text)


def theirs(folder: Path, text: str) -> FlumeAgent:
    return FlumeAgent(folder, text, started=["k1"], options=_FLUME_HEAP)


def run() -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as name,
        BrokerProcess(Path(name) / "broker") as broker,
    ):
        folder = Path(name)
        return [
            compare(
                "netcat -> memory -> topic, 200-byte events",
                "events/s",
                partial(lines_to_topic, "netcat", broker, folder),
                least_ratio=1.5,
            ),
            compare(
                "syslogtcp -> memory -> topic, 200-byte events",
                "events/s",
                partial(lines_to_topic, "syslogtcp", broker, folder),
                least_ratio=1.5,
            ),
            compare(
                "avro -> file -> avro, batches of 1000",
                "events/s",
                partial(hop, folder, 1),
                least=HOP_BAR,
            ),
            compare(
                f"avro -> file -> avro, batches of 1000 from {HOP_SENDERS} senders",
                "events/s",
                partial(hop, folder, HOP_SENDERS),
                least=HOP_BAR,
            ),
            tail_row(broker, folder),
            memory_row(folder),
        ]


def compare(
    name: str,
    unit: str,
    measure: Callable[[Start], float],
    *,
    least_ratio: float = 0.0,
    least: float = 0.0,
    rounds: int = ROUNDS,
) -> Row:
    """Our agent beside Flume; the bar is on the ratio or on our figure."""
    mine, flume = alternate(partial(measure, ours), partial(measure, theirs), rounds)
    ratio = median(mine) / median(flume)
    return Row(
        name=name,
        ours=median(mine),
        theirs=median(flume),
        unit=unit,
        spread=spread(mine),
        bar=f">= {least:,g} {unit}" if least else f">= {least_ratio}x Flume",
        reached=ratio >= least_ratio and median(mine) >= least,
    )


def tail_row(broker: BrokerProcess, folder: Path) -> Row:
    logs = folder / "logs"
    logs.mkdir()
    line = b"2026-11-15 06:00:00,000 INFO [worker] request served " + b"x" * 200
    block = (line[: EVENT_BYTES - 1] + b"\n") * 5000
    with (logs / "app.log").open("wb") as file:
        for _ in range(FILE_BYTES // len(block)):
            file.write(block)
    count = FILE_BYTES // len(block) * 5000
    return compare(
        f"TAILDIR of {FILE_BYTES >> 20} MiB -> memory -> topic",
        "MB/s",
        partial(tail, broker, folder, logs, count),
        least=TAIL_BAR,
        rounds=TAIL_ROUNDS,
    )


def lines_to_topic(source: str, broker: BrokerProcess, folder: Path, start: Start) -> float:
    """Events a second from the first byte sent to the last record in the log; a first event has
    gone through before, so that starting does not count."""
    port = free_port()
    start_of_line = b"<34>Oct 11 22:14:15 web1 app: " if source == "syslogtcp" else b""
    line = start_of_line + b"x" * (EVENT_BYTES - 1 - len(start_of_line)) + b"\n"
    with topic_of(broker) as topic:
        text = NETCAT.format(source=source, port=port) + TO_TOPIC.format(
            address=broker.address, topic=topic, batch=_BATCH
        )
        with start(new_folder(folder), text):
            block = line * 5000
            with connect(port) as peer:
                peer.sendall(line)
                wait_for_records(broker, topic, 1)
                began = time.perf_counter()
                sent = send_for(lambda: peer.sendall(block), EVENTS // 5000) * 5000
                arrived = wait_for_records(broker, topic, sent + 1, 60.0) - 1
            return arrived / (time.perf_counter() - began)


def tail(broker: BrokerProcess, folder: Path, logs: Path, count: int, start: Start) -> float:
    """Megabytes a second from the agent's start to the last record, less what starting takes."""
    own = new_folder(folder)
    hidden = logs.with_name("hidden")
    logs.rename(hidden)
    logs.mkdir()
    try:
        with topic_of(broker) as topic:
            text = TAILDIR.format(folder=logs, positions=own / "positions.json")
            text += TO_TOPIC.format(address=broker.address, topic=topic, batch=10_000)
            with start(own, text):
                (logs / "warm.log").write_bytes(b"warm\n")
                wait_for_records(broker, topic, 1)
                began = time.perf_counter()
                (hidden / "app.log").rename(logs / "app.log")
                done = wait_for_records(broker, topic, count + 1, TAIL_SECONDS) - 1
                seconds = time.perf_counter() - began
    finally:
        if (logs / "app.log").exists():
            (logs / "app.log").rename(hidden / "app.log")
        for path in logs.iterdir():
            path.unlink()
        logs.rmdir()
        hidden.rename(logs)
    return done * EVENT_BYTES / seconds / 1e6


def hop(folder: Path, senders: int, start: Start) -> float:
    """Events a second through an agent in the middle, with a durable channel. Each sender waits for
    the answer to a batch before it sends the next one."""
    own = new_folder(folder)
    port = free_port()
    batch = EventBatch.plain([b"x" * EVENT_BYTES] * 1000)
    receiver = CountingReceiver()
    receiver.listener.start()
    try:
        text = HOP.format(port=port, folder=own, next=receiver.listener.port)
        with start(own, text), ExitStack() as stack:
            peers = [stack.enter_context(connect(port)) for _ in range(senders)]
            requestors = [AvroRequestor(PeerStream(peer)) for peer in peers]
            threads = stack.enter_context(ThreadPoolExecutor(senders))

            def send_all(most: int, seconds: float) -> int:
                def one(sender: AvroRequestor) -> int:
                    return send_for(lambda: send(sender, batch), most // senders, seconds)

                return sum(threads.map(one, requestors)) * len(batch)

            def wait(count: int) -> None:
                wait_until(lambda: receiver.count >= count, what="all events", timeout_seconds=600)

            warmed = send_all(HOP_EVENTS, HOP_WARM_SECONDS)
            wait(warmed)
            began = time.perf_counter()
            sent = send_all(HOP_EVENTS // len(batch), SEND_SECONDS)
            wait(warmed + sent)
            return sent / (time.perf_counter() - began)
    finally:
        receiver.listener.stop()


def memory_row(folder: Path) -> Row:
    """The resident memory of an agent that passes on events all the time: the most in the last
    fifth of the time beside the most in the second fifth. It says nothing of a longer time."""
    own, port = new_folder(folder), free_port()
    batch = EventBatch.plain([b"x" * EVENT_BYTES] * 1000)
    receiver = CountingReceiver()
    receiver.listener.start()
    most = [0] * 5
    try:
        text = HOP.format(port=port, folder=own, next=receiver.listener.port)
        with AgentProcess(own, text) as agent, connect(port) as peer:
            sender = AvroRequestor(PeerStream(peer))
            began = time.perf_counter()
            while (passed := time.perf_counter() - began) < MEMORY_SECONDS:
                send(sender, batch)
                fifth = min(4, int(passed / MEMORY_SECONDS * 5))
                most[fifth] = max(most[fifth], agent.usage().rss_bytes)
    finally:
        receiver.listener.stop()
    return Row(
        name=f"memory of an agent, avro -> file -> avro, after {MEMORY_SECONDS:g} s and "
        f"{receiver.count / 1e6:.2g} M events; theirs: after {MEMORY_SECONDS * 2 / 5:g} s",
        ours=most[4] / 2**20,
        theirs=most[1] / 2**20,
        unit="MiB",
        bar=f"≤ {MEMORY_BAR}×",
        reached=most[4] <= MEMORY_BAR * most[1],
    )


def send_for(send_one: Callable[[], None], most: int, seconds: float = SEND_SECONDS) -> int:
    """Send again and again, at most so often and so long; how often it was."""
    began = time.perf_counter()
    for sent in range(1, most + 1):
        send_one()
        if time.perf_counter() - began > seconds:
            return sent
    return most


def send(sender: AvroRequestor, batch: EventBatch) -> None:
    while sender.append_batch(batch) is not AvroStatus.OK:
        time.sleep(0.01)


class CountingReceiver:
    """An Avro source that counts and forgets."""

    def __init__(self) -> None:
        self.count = 0
        self._known: dict[bytes, bool] = {}
        self.listener = TcpServer("receiver", "127.0.0.1", 0, self._serve)

    def _serve(self, connection: socket.socket) -> None:
        stream, responder = PeerStream(connection), AvroResponder(self._known)
        while (frame := read_frame(stream)) is not None:
            prefix, method, batch = responder.read(frame.message)
            status = None if batch is None else AvroStatus.OK
            self.count += 0 if batch is None else len(batch)
            write_frame(stream, frame.serial, answer(prefix, method, status))


def new_folder(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


def connect(port: int) -> socket.socket:
    found: list[socket.socket] = []

    def try_once() -> bool:
        try:
            found.append(socket.create_connection(("127.0.0.1", port)))
        except OSError:
            return False
        return True

    wait_until(try_once, what="the source")
    return found[0]


@contextmanager
def topic_of(broker: BrokerProcess) -> Iterator[str]:
    """A new topic, gone again when the round is over."""
    name = f"bench-{time.time_ns()}"
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        Admin(pool).create_topics([NewTopic(name, PARTITIONS)])
        try:
            yield name
        finally:
            Admin(pool).delete_topics([name])


def wait_for_records(
    broker: BrokerProcess, topic: str, count: int, at_most_seconds: float = 900.0
) -> int:
    """Until there are so many, or for so long; how many there are."""
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    deadline = time.perf_counter() + at_most_seconds
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        while True:
            extent = extents(pool, partitions).values()
            found = sum(int(getattr(each, "end", 0)) for each in extent)
            if found >= count or time.perf_counter() > deadline:
                return found
            time.sleep(0.02)
