"""Invalid and hostile input: it becomes events within limits or is refused, and later input gets
through."""

import json
import os
import resource
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.format.avro_event import encode_event, encode_long
from headrace.ingest.format.event_time import time_ms
from headrace.ingest.format.path_escape import PathEscape
from headrace.ingest.kafka.topic_columns import TopicColumns
from headrace.ingest.network.avro_rpc import PROTOCOL, PROTOCOL_HASH
from headrace.ingest.sink import Sink
from headrace.ingest.source import PollableSource, Source
from headrace.ingest.sources.avro import AvroSource
from headrace.ingest.sources.http import HttpSource
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import make, source_alone

LISTEN = {"bind": "127.0.0.1", "port": "0"}
NOT_UTF8 = b"\xff\xfe\x00caf\xe9\xed\xa0\x80"
LONG_BYTES = 40_000_000


def port_of(source: Source) -> int:
    found: int = source.listener.port  # type: ignore[attr-defined]
    return found


def send(port: int, data: bytes) -> bytes:
    """Return what the peer answers before it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: peer.recv(65536), b""))
        except OSError:
            return b""  # it closed the connection before we had sent everything


@pytest.mark.parametrize("kind", ["netcat", "syslogtcp"])
def test_a_line_that_never_ends_is_bounded_and_the_next_peer_is_served(kind: str) -> None:
    with source_alone(kind, LISTEN) as (source, got):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        piece = b"x" * (1 << 20)
        with socket.create_connection(("127.0.0.1", port_of(source)), timeout=60) as peer:
            try:
                for _ in range(LONG_BYTES // len(piece)):
                    peer.sendall(piece)
            except OSError:
                assert kind == "netcat"  # answered with FAILED, as in Flume
        send(port_of(source), b"<13>fine\n")
        wait_until(
            lambda: any(body.endswith(b"fine") for body in got.bodies),
            what="the good line",
            timeout_seconds=60,
        )
        assert max(map(len, got.bodies)) <= 2500
        kept = sum(map(len, got.bodies))  # RecordingProcessor keeps everything; a channel would not
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert grown < 2 * kept + 30_000_000


@pytest.mark.parametrize("kind", ["netcat", "syslogtcp"])
def test_lines_that_are_no_utf8_come_as_they_are(kind: str) -> None:
    with source_alone(kind, LISTEN) as (source, got):
        send(port_of(source), NOT_UTF8 + b"\n")
        wait_until(lambda: got.bodies == [NOT_UTF8], what="the line", timeout_seconds=60)


@pytest.mark.parametrize("kind", ["TAILDIR", "spooldir"])
def test_files_and_names_that_are_no_utf8_come_with_headers_that_are(
    kind: str, tmp_path: Path
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.log"))
    path.write_bytes(NOT_UTF8 + b"\n")
    texts = {
        "TAILDIR": {
            "filegroups": "f",
            "filegroups.f": f"{tmp_path}/.*log",
            "positionFile": f"{tmp_path}/positions",
        },
        "spooldir": {"spoolDir": str(tmp_path), "basenameHeader": "true"},
    }[kind]
    with source_alone(kind, {**texts, "fileHeader": "true"}) as (source, got):
        assert isinstance(source, PollableSource)
        while not got.bodies:
            source.poll()
        assert got.bodies == [NOT_UTF8]
        assert got.events[0].headers["file"].encode() == os.fsencode(tmp_path) + b"/caf\\xe9.log"


def a_million_headers() -> dict[str, str]:
    """Return what takes seconds to make: tests make it, so that a mere import does not."""
    return {str(n): "" for n in range(1_000_000)}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param('[{"headers": {"h": "\\ud800"}, "body": "b"}]', id="half a character"),
        pytest.param(
            '[{"headers": {"\\udfff": "v"}, "body": "b"}]', id="half a character in a name"
        ),
        pytest.param('[{"headers": {"h": 5}, "body": "b"}]', id="a number for a header"),
        pytest.param('[{"headers": {"h": "v"}, "body": 5}]', id="a number for a body"),
        pytest.param('{"headers": {}, "body": "b"}', id="no list"),
        pytest.param("[" * 100_000, id="far too deep"),
        pytest.param("[" + "9" * 10_000 + "]", id="a number of ten thousand digits"),
        pytest.param("", id="nothing"),
        pytest.param(
            lambda: json.dumps([{"headers": a_million_headers(), "body": ""}]),
            id="a million headers",
        ),
    ],
)
def test_http_refuses_what_is_no_event_and_takes_the_next(events: str | Callable[[], str]) -> None:
    text = events() if callable(events) else events
    with source_alone("http", LISTEN) as (source, got):
        assert isinstance(source, HttpSource)
        url = f"http://127.0.0.1:{source.port}/"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, text.encode(), timeout=60)
        assert refused.value.code == 400
        refused.value.close()
        urllib.request.urlopen(url, b'[{"body": "fine"}]', timeout=60).close()
        assert got.bodies == [b"fine"]


def avro_frame(message: bytes) -> bytes:
    return (1).to_bytes(4, "big") * 2 + len(message).to_bytes(4, "big") + message


HANDSHAKE = (
    PROTOCOL_HASH + b"\x02" + encode_long(len(PROTOCOL)) + PROTOCOL + PROTOCOL_HASH + b"\x00"
)
CALL = HANDSHAKE + b"\x00" + b"\x0cappend"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="a browser"),
        pytest.param(os.urandom(100_000), id="noise"),
        pytest.param(b"\0\0\0\1\x7f\xff\xff\xff", id="two billion buffers"),
        pytest.param(b"\0\0\0\1\0\0\0\1\x7f\xff\xff\xff", id="two gigabytes"),
        pytest.param(b"\0\0\0\1\0\0\0\1\xff\xff\xff\xff", id="a negative size"),
        pytest.param(avro_frame(HANDSHAKE + b"\x00\x08drop"), id="another method"),
        pytest.param(avro_frame(CALL + encode_long(2**62)), id="headers without end"),
        pytest.param(avro_frame(CALL + b"\xff" * 20), id="a number without end"),
        pytest.param(
            lambda: avro_frame(CALL + encode_event(a_million_headers(), b"")),
            id="a million headers",
        ),
        pytest.param(avro_frame(CALL + encode_event({"h": "v"}, b"body"))[:-2], id="a cut frame"),
    ],
)
def test_avro_closes_after_an_invalid_frame_and_serves_the_next_peer(
    data: bytes | Callable[[], bytes],
) -> None:
    sent = data() if callable(data) else data
    with source_alone("avro", LISTEN) as (source, got):
        assert isinstance(source, AvroSource)
        send(source.listener.port, sent)
        sink = make("sink", "avro", {"hostname": "127.0.0.1", "port": str(source.listener.port)})
        assert isinstance(sink, Sink)
        sink.deliver(EventBatch.plain([b"fine"]))
        sink.stop()
        assert got.bodies == [b"fine"]


STRANGE_TIMES = ["²", "٣", "-1", "9" * 15, "9" * 40, "9" * 5000, "", "noon", "1e3"]


@pytest.mark.parametrize("written", STRANGE_TIMES)
def test_an_invalid_time_does_not_stop_a_sink(written: str, tmp_path: Path) -> None:
    headers = {"timestamp": written}
    batch = EventBatch([b"body"], [headers])
    assert time_ms(headers) is None
    ((_, table),) = TopicColumns("t", timestamp_header="timestamp").tables(batch)
    assert table.column("value").to_pylist() == [b"body"]
    for kind in ("SequenceFile", "DataStream"):
        sink = make(
            "sink", "hdfs", {"hdfs.path": f"{tmp_path}/{kind}/%Y-%m-%d", "hdfs.fileType": kind}
        )
        assert isinstance(sink, Sink)
        sink.deliver(batch)
        sink.stop()


@pytest.mark.parametrize("value", ["../../etc", "a\0b", "x" * 5000, "ä" * 5000, "..", "\ud800"])
def test_a_header_in_a_path_stays_below_the_folder_and_fits(value: str, tmp_path: Path) -> None:
    filled = Path(PathEscape(f"{tmp_path}/%{{h}}").fill({"h": value}))
    filled.mkdir(parents=True)
    assert filled.resolve().is_relative_to(tmp_path)


@pytest.mark.parametrize("value", ["²", "9" * 30, "-1", "x"])
def test_an_invalid_partition_is_a_failed_delivery(value: str) -> None:
    form = TopicColumns("t", partition_header="p")
    with pytest.raises(DeliveryFailed, match="no partition"):
        form.tables(EventBatch([b"body"], [{"p": value}]))
