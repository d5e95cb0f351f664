"""kill -9 at random moments of every durable path: no event is lost, and only the documented ones
are repeated. `HEADRACE_KILLS` says how often; once by default, on one path of each kind."""

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import BinaryIO

import pytest

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import extents
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.ingest.error import IngestError
from headrace.ingest.event import EventBatch
from headrace.ingest.network.avro_rpc import AvroRequestor, AvroStatus
from headrace.ingest.network.peer_stream import PeerStream
from headrace.ingest.sources.avro import AvroSource
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import free_port, wait_until
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess
from testkit.sample.ingest_agent import source_alone

KILLS = int(os.environ.get("HEADRACE_KILLS", "1"))
SINK_BATCH = 100
SOURCE_BATCH = 50
LINES = 3000
SECONDS = 180.0

FILE_CHANNEL = """\
a1.channels.c1.type = file
a1.channels.c1.dataDirs = {folder}/channel-1 {folder}/channel-2
a1.channels.c1.minimumRequiredSpace = 0
"""
# A static member: the group does not wait for the one that was killed to time out.
KAFKA_CHANNEL = """\
a1.channels.c1.type = kafka
a1.channels.c1.kafka.bootstrap.servers = {broker}
a1.channels.c1.kafka.topic = {topic}-channel
a1.channels.c1.kafka.consumer.group.id = {topic}
a1.channels.c1.kafka.consumer.group.instance.id = {topic}
"""
ONCE_CHANNEL = KAFKA_CHANNEL + "a1.channels.c1.kafka.transactional.id = {topic}-channel\n"
MEMORY_CHANNEL = "a1.channels.c1.type = memory\n"
TAIL = """\
a1.sources.r1.type = TAILDIR
a1.sources.r1.filegroups = f
a1.sources.r1.filegroups.f = {folder}/in/app.*
a1.sources.r1.positionFile = {folder}/positions.json
a1.sources.r1.writePosInterval = 0
"""
SPOOL = "a1.sources.r1.type = spooldir\na1.sources.r1.spoolDir = {folder}/in\n"
ONCE = "a1.sources.r1.exactlyOnce = true\n"
LISTENER = """\
a1.sources.r1.type = {type}
a1.sources.r1.bind = 127.0.0.1
a1.sources.r1.port = {port}
"""
FILES = "a1.sinks.k1.type = file_roll\na1.sinks.k1.sink.directory = {folder}/out\n"
TOPIC = """\
a1.sinks.k1.type = kafka
a1.sinks.k1.kafka.bootstrap.servers = {broker}
a1.sinks.k1.kafka.topic = {topic}
"""
TOPIC_ONCE = TOPIC + "a1.sinks.k1.kafka.transactional.id = {topic}\n"
WIRING = f"""\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.channels = c1
a1.sources.r1.batchSize = {SOURCE_BATCH}
a1.sinks.k1.channel = c1
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


def kill_in_the_middle(agent: AgentProcess, dice: Random, progress: Callable[[], int]) -> None:
    """Wait for a moment to kill: mostly while events flow, sometimes while the agent starts."""
    before = progress()
    with agent:
        if dice.random() < 0.8:
            wait_until(lambda: progress() > before, what="some events", timeout_seconds=SECONDS)
        threading.Event().wait(dice.uniform(0.0, 0.25))


def assert_nothing_lost(found: Counter[bytes], expected: list[bytes], allowed: int) -> None:
    lost = set(expected) - set(found)
    doubled = sum(found.values()) - len(found)
    print(f"{KILLS} kills: {len(expected)} events, {len(lost)} lost, {doubled} doubled")
    assert not lost
    # A line that was half written when the agent died, beside the whole one that came after.
    strange = set(found) - set(expected)
    assert len(strange) <= KILLS
    assert doubled <= allowed


def in_files(folder: Path) -> Counter[bytes]:
    lines: Counter[bytes] = Counter()
    for path in (folder / "out").glob("*"):
        lines.update(path.read_bytes().splitlines())
    return lines


def size_of_files(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "out").glob("*"))


def in_topic(broker: BrokerProcess, topic: str) -> Counter[bytes]:
    with Reader.of_topics(
        {"bootstrap.servers": broker.address}, topic, read_committed=True
    ) as reader:
        return Counter(reader.read_all()["value"].to_pylist())


def end_of_topic(broker: BrokerProcess, topic: str) -> int:
    """Return the log end of a topic, with uncommitted records and markers; 0 without the topic."""
    partition = TopicPartition(topic, 0)
    try:
        with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
            extent = extents(pool, [partition])[partition]
    except ClientError:
        return 0
    return 0 if isinstance(extent, ClientError) else int(extent.end)


def new_lines(folder: Path, name: str, turn: int) -> list[bytes]:
    """Write a new file, or more lines of one, and sometimes rotate the old one."""
    lines = [b"%d-%d" % (turn, row) for row in range(LINES)]
    (folder / "in").mkdir(exist_ok=True)
    path = folder / "in" / name
    with path.open("ab") as file:
        file.writelines(line + b"\n" for line in lines)
    return lines


PATHS = [
    pytest.param(SPOOL, FILE_CHANNEL, FILES, id="spooldir-file-files"),
    pytest.param(SPOOL, KAFKA_CHANNEL, FILES, id="spooldir-kafka-files"),
    pytest.param(TAIL, FILE_CHANNEL, TOPIC, id="taildir-file-topic"),
    pytest.param(TAIL + ONCE, MEMORY_CHANNEL, TOPIC_ONCE, id="taildir-memory-topic-once"),
]
# More of the same kinds, for those who have asked for many kills: starting agents takes time.
MORE_PATHS = [
    pytest.param(SPOOL, KAFKA_CHANNEL, TOPIC, id="spooldir-kafka-topic"),
    pytest.param(SPOOL + ONCE, MEMORY_CHANNEL, TOPIC_ONCE, id="spooldir-memory-topic-once"),
    pytest.param(TAIL + ONCE, ONCE_CHANNEL, FILES, id="taildir-kafka-once-files"),
]


@pytest.mark.parametrize(("source", "channel", "sink"), PATHS + MORE_PATHS if KILLS > 1 else PATHS)
def test_files_survive(
    tmp_path: Path, broker: BrokerProcess, source: str, channel: str, sink: str
) -> None:
    topic, dice = f"lines-{tmp_path.name}", Random(11)
    text = (WIRING + source + channel + sink).format(
        folder=tmp_path, broker=broker.address, topic=topic
    )
    agent = AgentProcess(tmp_path, text)
    to_files, tailed = sink is FILES, source.startswith(TAIL)

    def progress() -> int:
        return size_of_files(tmp_path) if to_files else end_of_topic(broker, topic)

    def found() -> Counter[bytes]:
        return in_files(tmp_path) if to_files else in_topic(broker, topic)

    expected: list[bytes] = []
    for turn in range(KILLS):
        expected += new_lines(tmp_path, "app.log" if tailed else f"app.{turn}", turn)
        kill_in_the_middle(agent, dice, progress)
        if tailed and turn % 2:
            (tmp_path / "in" / "app.log").rename(tmp_path / "in" / f"app.log.{turn}")
    with agent:
        wait_until(
            lambda: progress() > 0 and not set(expected) - set(found()),
            what="all lines",
            timeout_seconds=SECONDS,
        )
        assert agent.stop() == 0
    once = source.endswith(ONCE) and not to_files
    assert_nothing_lost(found(), expected, 0 if once else KILLS * (SOURCE_BATCH + SINK_BATCH))
    if source.endswith(ONCE) and channel is ONCE_CHANNEL:
        in_channel = in_topic(broker, f"{topic}-channel")
        assert sum(in_channel.values()) == len(expected)


def test_lines_that_netcat_acknowledged_survive(tmp_path: Path) -> None:
    dice, port = Random(7), free_port()
    source = LISTENER.format(type="netcat", port=port)
    text = (WIRING + source + FILE_CHANNEL + FILES).format(folder=tmp_path)
    agent, client = AgentProcess(tmp_path, text), NetcatClient(port)
    for _ in range(KILLS):
        with agent:
            kill_while(agent, port, dice, client.send_until_hang_up)
    with agent:
        wait_until(
            lambda: not set(client.acknowledged) - set(in_files(tmp_path)),
            what="the rest",
            timeout_seconds=SECONDS,
        )
        assert agent.stop() == 0
    found = in_files(tmp_path)
    unanswered = set(client.sent) - set(client.acknowledged)
    taken = unanswered & set(found)  # and killed before it could say so
    assert_nothing_lost(found, [*client.acknowledged, *taken], KILLS * SINK_BATCH)


class NetcatClient:
    """Sends a few lines at a time and reads the answer to each."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.sent: list[bytes] = []
        self.acknowledged: list[bytes] = []

    def send_until_hang_up(self) -> None:
        try:
            with (
                socket.create_connection(("127.0.0.1", self._port)) as peer,
                peer.makefile("rb") as answers,
            ):
                while self._send(peer, answers):
                    pass
        except OSError:
            return

    def _send(self, peer: socket.socket, answers: BinaryIO) -> bool:
        lines = [b"%d" % (len(self.sent) + row) for row in range(20)]
        self.sent += lines
        peer.sendall(b"".join(line + b"\n" for line in lines))
        for line in lines:
            if answers.readline() != b"OK\n":
                return False
            self.acknowledged.append(line)
        return True


def test_events_that_avro_acknowledged_survive(tmp_path: Path) -> None:
    dice, port = Random(17), free_port()
    source = LISTENER.format(type="avro", port=port)
    with source_alone("avro", {"bind": "127.0.0.1", "port": "0"}) as (last_hop, got):
        assert isinstance(last_hop, AvroSource)
        sink = (
            "a1.sinks.k1.type = avro\na1.sinks.k1.hostname = 127.0.0.1\n"
            f"a1.sinks.k1.port = {last_hop.listener.port}\n"
        )
        text = (WIRING + source + FILE_CHANNEL + sink).format(folder=tmp_path)
        agent, client = AgentProcess(tmp_path, text), AvroClient(port)
        for _ in range(KILLS):
            with agent:
                kill_while(agent, port, dice, client.send_until_hang_up)
        with agent:
            wait_until(lambda: listens(port), what="the source", timeout_seconds=SECONDS)
            client.send_pending()
            wait_until(
                lambda: not set(client.acknowledged) - set(got.bodies),
                what="the rest",
                timeout_seconds=SECONDS,
            )
            assert agent.stop() == 0
    assert_nothing_lost(
        Counter(got.bodies), client.acknowledged, KILLS * (SOURCE_BATCH + SINK_BATCH)
    )


class AvroClient:
    """Sends batches, and again those without an answer, as Flume's clients do."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pending: list[bytes] = []
        self._number = 0
        self.acknowledged: list[bytes] = []

    def send_until_hang_up(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self._port)) as peer:
                requestor = AvroRequestor(PeerStream(peer))
                while True:
                    self._send(requestor)
        except (OSError, IngestError):
            return

    def send_pending(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as peer:
            self._send(AvroRequestor(PeerStream(peer)))

    def _send(self, requestor: AvroRequestor) -> None:
        if not self._pending:
            self._pending = [b"%d" % (self._number + row) for row in range(SOURCE_BATCH)]
            self._number += SOURCE_BATCH
        if requestor.append_batch(EventBatch.plain(self._pending)) is AvroStatus.OK:
            self.acknowledged += self._pending
            self._pending = []


def kill_while(agent: AgentProcess, port: int, dice: Random, send: Callable[[], None]) -> None:
    wait_until(lambda: listens(port), what="the source", timeout_seconds=SECONDS)
    killer = threading.Timer(dice.uniform(0.01, 0.4), agent.kill)
    killer.start()
    try:
        send()
    finally:
        killer.join()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
