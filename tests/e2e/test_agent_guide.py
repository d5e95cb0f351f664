"""The configurations of Flume's user guide run: each delivers an event."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.ingest.agent.agent import Agent
from headrace.ingest.event import EventBatch
from headrace.ingest.network.tcp_server import TcpServer
from headrace.ingest.sink import Sink
from headrace.ingest.sources.http import HttpSource
from headrace.telemetry.http_server import HttpServer
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.sample.flume_guide import (
    CHANNELS,
    GROUPS,
    SINKS,
    SOURCE_EXTRAS,
    SOURCES,
    at_home,
    prefixed,
)
from testkit.sample.ingest_agent import CollectingSink, make, running, source_alone

SECONDS = 60.0
WIRING = (
    "a1.sources = r1\na1.channels = c1\na1.sinks = k1\n"
    "a1.sources.r1.channels = c1\na1.sinks.k1.channel = c1\n"
)
MEMORY = "type = memory"
COLLECT = "type = testkit.sample.ingest_agent:CollectingSink"
NETCAT = "type = netcat\nbind = 127.0.0.1\nport = 0"
LINE = b"<34>Oct 11 22:14:15 web1 app: The quick brown fox jumped over the lazy dog 1:2:3"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**QUICK_SETTINGS, "num.partitions": "1"}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings) as running_broker:
        yield running_broker


def agent_text(source: str, channel: str = MEMORY, sink: str = COLLECT) -> str:
    return (
        WIRING
        + prefixed("a1.sources.r1", source)
        + prefixed("a1.channels.c1", channel)
        + prefixed("a1.sinks.k1", sink)
    )


def collected(agent: Agent, name: str = "k1") -> CollectingSink:
    sink = agent.assembly.sinks[name]
    assert isinstance(sink, CollectingSink)
    return sink


def wait_for_event(agent: Agent) -> None:
    wait_until(
        lambda: bool(collected(agent).bodies), what="an event at the sink", timeout_seconds=SECONDS
    )


def wait_for_drain(agent: Agent) -> None:
    sink = agent.assembly.sinks["k1"]
    wait_until(
        lambda: sink.counters["EventDrainSuccessCount"] == 1,
        what="the event at the sink",
        timeout_seconds=SECONDS,
    )


def send_line(agent: Agent) -> None:
    source = agent.assembly.sources["r1"]
    listener = getattr(source, "listener", None) or source.listeners[-1]  # type: ignore[attr-defined]
    assert isinstance(listener, TcpServer)
    with socket.create_connection(("127.0.0.1", listener.port)) as peer:
        peer.sendall(LINE + b"\n")


def send_datagram(agent: Agent) -> None:
    server = agent.assembly.sources["r1"].server  # type: ignore[attr-defined]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendto(LINE, ("127.0.0.1", server.port))


def send_hop(agent: Agent) -> None:
    source = agent.assembly.sources["r1"]
    kind = type(source).__name__.removesuffix("Source").lower()
    texts = {"hostname": "127.0.0.1", "port": str(source.listener.port)}  # type: ignore[attr-defined]
    if kind == "avro":
        texts["compression-type"] = source.settings.text("compression-type")
    sink = make("sink", kind, texts)
    assert isinstance(sink, Sink)
    sink.deliver(EventBatch.plain([LINE]))
    sink.stop()


def post(agent: Agent) -> None:
    source = agent.assembly.sources["r1"]
    assert isinstance(source, HttpSource)
    connection = http.client.HTTPConnection("127.0.0.1", source.port, timeout=SECONDS)
    connection.request("POST", "/", json.dumps([{"headers": {}, "body": LINE.decode()}]))
    assert connection.getresponse().status == 200
    connection.close()


def nothing(agent: Agent) -> None:
    """Send nothing: the source produces events itself, or finds them."""


POKES: dict[str, Callable[[Agent], None]] = {
    "avro": send_hop,
    "thrift": send_hop,
    "netcat": send_line,
    "netcatudp": send_datagram,
    "syslogtcp": send_line,
    "multiport_syslogtcp": send_line,
    "syslogudp": send_datagram,
    "http": post,
}
RUNNABLE = [name for name in SOURCES if name != "http" and not name.startswith("kafka")]


@pytest.mark.parametrize("name", RUNNABLE)
def test_sources_accept_an_event(name: str, tmp_path: Path) -> None:
    for path in (
        "var/log/secure",
        "path/one.txt",
        "var/log/apache/flumeSpool/done",
        "var/log/test1/example.log",
        "var/log/test2/a.log.1",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(LINE + b"\n")
    with running(agent_text(at_home(SOURCES[name], tmp_path))) as agent:
        POKES.get(name.split()[0], nothing)(agent)
        wait_for_event(agent)


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith("kafka")])
def test_kafka_sources_read_an_event(name: str, tmp_path: Path, broker: BrokerProcess) -> None:
    topics = ["topic7"] if "regex" in SOURCES[name] else ["test1", "test2"]
    settings = {"bootstrap.servers": broker.address}
    with ConnectionPool(ClientSettings.of(settings)) as pool:
        made = Admin(pool).create_topics([NewTopic(topic, 1) for topic in topics])
        assert set(made.values()) == {None}
    with Writer(settings) as writer:
        for topic in topics:
            writer.write(pa.table({"value": [LINE]}), topic)
    text = at_home(SOURCES[name], tmp_path, broker=broker.address)
    with running(agent_text(text + "\nkafka.consumer.auto.offset.reset = earliest")) as agent:
        wait_for_event(agent)


@contextmanager
def hop_peer(kind: str) -> Iterator[tuple[int, Callable[[], bool]]]:
    with source_alone(kind, {"bind": "127.0.0.1", "port": "0"}) as (source, got):
        yield source.listener.port, lambda: set(got.bodies) == {LINE}  # type: ignore[attr-defined]


@contextmanager
def http_peer() -> Iterator[tuple[int, Callable[[], bool]]]:
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HttpServer("127.0.0.1", 0, Handler, name="sink's peer") as server:
        # A sink whose peer answers late sends the event again.
        yield server.port, lambda: set(got) == {LINE}


@pytest.mark.parametrize("name", ["avro", "thrift", "http"])
def test_sinks_reach_a_peer(name: str, tmp_path: Path) -> None:
    peer = http_peer() if name == "http" else hop_peer(name)
    with peer as (port, arrived):
        text = agent_text(NETCAT, sink=at_home(SINKS[name], tmp_path, port=port))
        with running(text) as agent:
            send_line(agent)
            wait_until(arrived, what="the event", timeout_seconds=SECONDS)


@pytest.mark.parametrize(
    "name", [name for name in SINKS if name.startswith(("hdfs", "file_roll", "null", "logger"))]
)
def test_sinks_store_an_event(name: str, tmp_path: Path) -> None:
    stamp = "\ninterceptors = i1\ninterceptors.i1.type = timestamp"
    text = agent_text(NETCAT + stamp, sink=at_home(SINKS[name], tmp_path))
    with running(text) as agent:
        send_line(agent)
        wait_for_drain(agent)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    if name.startswith(("hdfs", "file_roll")):
        (file,) = files
        assert not file.name.endswith(".tmp")
        assert LINE in file.read_bytes() or name == "hdfs with Avro"
    if name == "hdfs with Avro":
        with file.open("rb") as stored:
            assert [row["body"] for row in fastavro.reader(stored)] == [LINE]


def test_the_kafka_sink_writes_an_event(tmp_path: Path, broker: BrokerProcess) -> None:
    sink = at_home(SINKS["kafka"], tmp_path, broker=broker.address)
    with running(agent_text(NETCAT, sink=sink)) as agent:
        send_line(agent)
        wait_for_drain(agent)
    with Reader.of_topics({"bootstrap.servers": broker.address}, "mytopic") as reader:
        assert reader.read_all()["value"].to_pylist() == [LINE]


@pytest.mark.parametrize("name", CHANNELS)
def test_channels_pass_an_event_on(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue("broker").address if name == "kafka" else ""
    channel = at_home(CHANNELS[name], tmp_path, broker=address)
    with running(agent_text(NETCAT, channel=channel)) as agent:
        send_line(agent)
        wait_for_event(agent)
        assert collected(agent).bodies == [LINE]


@pytest.mark.parametrize("name", SOURCE_EXTRAS)
def test_interceptors_and_selectors_let_an_event_through(name: str) -> None:
    with running(agent_text(f"{NETCAT}\n{SOURCE_EXTRAS[name]}")) as agent:
        send_line(agent)
        wait_for_event(agent)


@pytest.mark.parametrize("name", GROUPS)
def test_groups_deliver_an_event(name: str) -> None:
    text = agent_text(NETCAT).replace("a1.sinks = k1", "a1.sinks = k1 k2")
    text += prefixed("a1.sinks.k2", f"{COLLECT}\nchannel = c1")
    text += "a1.sinkgroups = g1\na1.sinkgroups.g1.sinks = k1 k2\n"
    text += prefixed("a1.sinkgroups.g1", GROUPS[name])
    with running(text) as agent:
        send_line(agent)
        wait_until(
            lambda: collected(agent).bodies + collected(agent, "k2").bodies == [LINE],
            what="the event",
            timeout_seconds=SECONDS,
        )


TWO_FLOWS = """\
a1.sources = exec-tail-source1 netcat-source2
a1.sinks = sink1 sink2
a1.channels = mem-channel-1 file-channel-2
a1.sources.exec-tail-source1.type = exec
a1.sources.exec-tail-source1.command = cat {folder}/messages
a1.sources.exec-tail-source1.channels = mem-channel-1
a1.sources.netcat-source2.type = netcat
a1.sources.netcat-source2.bind = 127.0.0.1
a1.sources.netcat-source2.port = 0
a1.sources.netcat-source2.channels = mem-channel-1 file-channel-2
a1.sources.netcat-source2.selector.type = multiplexing
a1.sources.netcat-source2.selector.header = State
a1.sources.netcat-source2.selector.mapping.CA = mem-channel-1
a1.sources.netcat-source2.selector.mapping.NY = mem-channel-1 file-channel-2
a1.sources.netcat-source2.selector.default = file-channel-2
a1.sources.netcat-source2.interceptors = i1
a1.sources.netcat-source2.interceptors.i1.type = regex_extractor
a1.sources.netcat-source2.interceptors.i1.regex = ^([A-Z]{{2}})
a1.sources.netcat-source2.interceptors.i1.serializers = s1
a1.sources.netcat-source2.interceptors.i1.serializers.s1.name = State
a1.channels.mem-channel-1.type = memory
a1.channels.file-channel-2.type = file
a1.channels.file-channel-2.dataDirs = {folder}/data
a1.sinks.sink1.type = testkit.sample.ingest_agent:CollectingSink
a1.sinks.sink1.channel = mem-channel-1
a1.sinks.sink2.type = testkit.sample.ingest_agent:CollectingSink
a1.sinks.sink2.channel = file-channel-2
"""


def test_two_flows_in_one_agent_with_contextual_routing(tmp_path: Path) -> None:
    (tmp_path / "messages").write_bytes(b"from a command\n")
    with running(TWO_FLOWS.format(folder=tmp_path)) as agent:
        listener = agent.assembly.sources["netcat-source2"].listener  # type: ignore[attr-defined]
        with socket.create_connection(("127.0.0.1", listener.port)) as peer:
            peer.sendall(b"CA 1\nNY 2\nTX 3\nnone 4\n")
        wait_until(
            lambda: (
                len(collected(agent, "sink1").bodies) == 3
                and len(collected(agent, "sink2").bodies) == 3
            ),
            what="all events",
            timeout_seconds=SECONDS,
        )
        assert sorted(collected(agent, "sink1").bodies) == [b"CA 1", b"NY 2", b"from a command"]
        assert sorted(collected(agent, "sink2").bodies) == [b"NY 2", b"TX 3", b"none 4"]
