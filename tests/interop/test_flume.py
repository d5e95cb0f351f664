"""Apache Flume's own agents on the other side of our Avro and Thrift parts."""

import socket
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from headrace.ingest.event import Event, EventBatch
from headrace.ingest.sinks.remote import RemoteSink
from headrace.ingest.sources.avro import AvroSource
from headrace.ingest.sources.thrift import ThriftSource
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.flume import FlumeAgent
from testkit.peer.flume_jars import FLUME_JARS
from testkit.peer.java import find_java
from testkit.peer.peer import PeerMissing, require_peer
from testkit.sample.ingest_agent import RecordingProcessor, make, source_alone

pytestmark = pytest.mark.interop

# Which hops are tried: kind and the settings that both sides have.
HOPS = [
    ("avro", {}),
    ("avro", {"compression-type": "deflate"}),
    ("thrift", {}),
]


@pytest.fixture(scope="module", autouse=True)
def flume() -> None:
    try:
        find_java()
        FLUME_JARS.find()
    except PeerMissing as missing:
        require_peer(str(missing))


def lines(prefix: str, texts: dict[str, str]) -> str:
    return "".join(f"a1.{prefix}.{key} = {value}\n" for key, value in texts.items())


def has_all(processor: RecordingProcessor) -> bool:
    return len(processor.bodies) >= 50


def sent(port: int) -> bool:
    """Return whether our lines were accepted: Flume does not log when this source is up."""
    try:
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(b"".join(b"line %d\n" % number for number in range(50)))
            with peer.makefile("rb") as answers:
                return [answers.readline() for _ in range(50)] == [b"OK\n"] * 50
    except OSError:
        return False


def written(folder: Path) -> list[str]:
    return "".join(path.read_text() for path in folder.iterdir()).splitlines()


def wrote_all(folder: Path) -> bool:
    return len(written(folder)) >= 50


def test_flume_s_sinks_reach_our_sources(tmp_path: Path) -> None:
    """One Flume agent, a sink for every hop, all fed by one netcat source."""
    got: list[RecordingProcessor] = []
    names = [f"k{number}" for number in range(len(HOPS))]
    channels = [f"c{number}" for number in range(len(HOPS))]
    port = free_port()
    text = (
        "a1.sources = r1\n"
        f"a1.channels = {' '.join(channels)}\na1.sinks = {' '.join(names)}\n"
        "a1.sources.r1.type = netcat\na1.sources.r1.bind = 127.0.0.1\n"
        f"a1.sources.r1.port = {port}\na1.sources.r1.channels = {' '.join(channels)}\n"
        "a1.sources.r1.interceptors = i1\na1.sources.r1.interceptors.i1.type = static\n"
        "a1.sources.r1.interceptors.i1.key = dc\n"
        "a1.sources.r1.interceptors.i1.value = z\\u00fcrich\n"
    )
    with ExitStack() as stack:
        for (kind, texts), name, channel in zip(HOPS, names, channels, strict=True):
            listening = {"bind": "127.0.0.1", "port": "0", **texts}
            source, processor = stack.enter_context(source_alone(kind, listening))
            assert isinstance(source, AvroSource | ThriftSource)
            got.append(processor)
            text += f"a1.channels.{channel}.type = memory\n"
            text += lines(
                f"sinks.{name}",
                {
                    "type": kind,
                    "hostname": "127.0.0.1",
                    "port": str(source.listener.port),
                    "channel": channel,
                    "batch-size": "10",
                    **texts,
                },
            )
        with FlumeAgent(tmp_path, text, names):
            wait_until(partial(sent, port), what="Flume's netcat source")
            for (kind, _), processor in zip(HOPS, got, strict=True):
                wait_until(partial(has_all, processor), what=f"50 events by {kind}")
    for processor in got:
        assert processor.bodies == [b"line %d" % number for number in range(50)]
        assert processor.events[0].headers == {"dc": "zürich"}


def test_our_sinks_reach_flume_s_sources(tmp_path: Path) -> None:
    """One Flume agent, a source for every hop, each writing headers and bodies to files."""
    ports = [free_port() for _ in HOPS]
    names = [str(number) for number in range(len(HOPS))]
    text = (
        f"a1.sources = {' '.join('r' + n for n in names)}\n"
        f"a1.channels = {' '.join('c' + n for n in names)}\n"
        f"a1.sinks = {' '.join('k' + n for n in names)}\n"
    )
    for (kind, texts), name, port in zip(HOPS, names, ports, strict=True):
        folder = tmp_path / name
        folder.mkdir()
        listening = {"type": kind, "bind": "127.0.0.1", "port": str(port), "channels": f"c{name}"}
        text += lines(f"sources.r{name}", {**listening, **texts})
        text += f"a1.channels.c{name}.type = memory\n"
        text += lines(
            f"sinks.k{name}",
            {
                "type": "file_roll",
                "sink.directory": str(folder),
                "sink.rollInterval": "0",
                "sink.serializer": "HEADER_AND_TEXT",
                "channel": f"c{name}",
            },
        )
    events = [Event({"n": str(number)}, b"body %d" % number) for number in range(50)]
    expected = [f"{{n={number}}} body {number}" for number in range(50)]
    with FlumeAgent(tmp_path, text, [*("r" + n for n in names), *("k" + n for n in names)]):
        for (kind, texts), name, port in zip(HOPS, names, ports, strict=True):
            sink = make("sink", kind, {"hostname": "127.0.0.1", "port": str(port), **texts})
            assert isinstance(sink, RemoteSink)
            sink.deliver(EventBatch.of(events[:20]))
            sink.deliver(EventBatch.of(events[20:]))
            sink.stop()
            folder = tmp_path / name
            wait_until(partial(wrote_all, folder), what=f"50 events in Flume by {kind}")
            assert written(folder) == expected
