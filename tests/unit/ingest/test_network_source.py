"""Sources that listen: netcat, UDP, syslog, HTTP."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.ingest.event import Event
from headrace.ingest.sources.http import HttpSource
from headrace.ingest.sources.netcat import NetcatSource
from headrace.ingest.sources.netcat_udp import NetcatUdpSource
from headrace.ingest.sources.syslog_multiport import MultiportSyslogSource
from headrace.ingest.sources.syslog_tcp import SyslogTcpSource
from headrace.ingest.sources.syslog_udp import SyslogUdpSource
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import RecordingProcessor, source_alone

HERE = {"bind": "127.0.0.1", "port": "0"}
LOCAL = {"host": "127.0.0.1", "port": "0"}


def lines_of(connection: socket.socket) -> list[bytes]:
    """Everything the peer answers until it hangs up."""
    with connection.makefile("rb") as answers:
        return answers.read().splitlines()


@contextmanager
def netcat(**texts: str) -> Iterator[tuple[socket.socket, RecordingProcessor]]:
    with source_alone("netcat", {**HERE, **texts}) as (source, got):
        assert isinstance(source, NetcatSource)
        with socket.create_connection(("127.0.0.1", source.listener.port)) as connection:
            yield connection, got


def test_netcat_makes_an_event_of_each_line_and_says_ok() -> None:
    with netcat() as (connection, got):
        connection.sendall(b"one\ntwo \xff\n\nlast")
        connection.shutdown(socket.SHUT_WR)
        assert lines_of(connection) == [b"OK"] * 4
    assert got.bodies == [b"one", b"two \xff", b"", b"last"]


def test_netcat_can_be_silent() -> None:
    with netcat(**{"ack-every-event": "false"}) as (connection, got):
        connection.sendall(b"one\n")
        connection.shutdown(socket.SHUT_WR)
        assert lines_of(connection) == []
    assert got.bodies == [b"one"]


@pytest.mark.parametrize("sent", [b"good\n" + b"x" * 600 + b"\nnever\n", b"good\n" + b"x" * 9999])
def test_netcat_takes_what_comes_before_an_overlong_line_and_hangs_up(sent: bytes) -> None:
    with netcat() as (connection, got):
        connection.sendall(sent)
        answers = lines_of(connection)
    assert answers[0] == b"OK"
    assert answers[1].startswith(b"FAILED: Event exceeds the maximum length (512")
    assert got.bodies == [b"good"]


def test_netcat_over_udp() -> None:
    texts = {**HERE, "remoteAddressHeader": "from"}
    with source_alone("netcatudp", texts) as (source, got):
        assert isinstance(source, NetcatUdpSource)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for body in (b"one\n", b"two"):
                sender.sendto(body, ("127.0.0.1", source.server.port))
        wait_until(lambda: len(got.bodies) == 2, what="both datagrams")
    assert got.events == [Event({"from": "127.0.0.1"}, body) for body in (b"one", b"two")]


def test_syslog_over_tcp_in_both_framings() -> None:
    with source_alone("syslogtcp", LOCAL) as (source, got):
        assert isinstance(source, SyslogTcpSource)
        with socket.create_connection(("127.0.0.1", source.listener.port)) as connection:
            connection.sendall(b"<34>Oct 11 22:14:15 web1 su: failed\n")
            connection.sendall(b"35 <165>1 2003-10-11T22:14:15.003Z h m")
        wait_until(lambda: len(got.bodies) == 2, what="both messages")
    assert got.bodies == [b"su: failed", b"m"]
    assert [each.headers["host"] for each in got.events] == ["web1", "h"]


def test_syslog_on_several_ports_says_which() -> None:
    texts = {"host": "127.0.0.1", "ports": "0 0", "portHeader": "port"}
    with source_alone("multiport_syslogtcp", texts) as (source, got):
        assert isinstance(source, MultiportSyslogSource)
        for listener in source.listeners:
            with socket.create_connection(("127.0.0.1", listener.port)) as connection:
                connection.sendall(b"<13>Oct  1 22:14:15 web1 hello\n")
        wait_until(lambda: len(got.bodies) == 2, what="both messages")
    assert [each.headers["port"] for each in got.events] == ["0", "0"]


def test_syslog_over_udp() -> None:
    with source_alone("syslogudp", {**LOCAL, "keepFields": "all"}) as (source, got):
        assert isinstance(source, SyslogUdpSource)
        message = b"<34>Oct 11 22:14:15 web1 su: failed"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(message + b"\n", ("127.0.0.1", source.server.port))
        wait_until(lambda: len(got.bodies) == 1, what="the message")
    assert got.bodies == [message]


@contextmanager
def http(**texts: str) -> Iterator[tuple[str, RecordingProcessor]]:
    with source_alone("http", {**HERE, **texts}) as (source, got):
        assert isinstance(source, HttpSource)
        yield f"http://127.0.0.1:{source.port}/", got


def post(url: str, body: bytes, **headers: str) -> int:
    request = urllib.request.Request(
        url, body, {k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


def test_http_takes_a_list_of_events_as_one_batch() -> None:
    rows = [{"headers": {"a": "1"}, "body": "änd"}, {"body": "two"}]
    with http() as (url, got):
        assert post(url, json.dumps(rows).encode()) == 200
    assert [list(batch) for batch in got.batches] == [
        [Event({"a": "1"}, "änd".encode()), Event({}, b"two")]
    ]


@pytest.mark.parametrize(
    "body", [b"no json", b"{}", b"[1]", b'[{"body": 5}]', b'[{"headers": {"a": 1}}]', b"\xff" * 9]
)
def test_http_refuses_what_it_cannot_read(body: bytes) -> None:
    with http() as (url, got):
        assert post(url, body) == 400
    assert got.batches == []


def test_http_answers_503_when_the_channel_is_full() -> None:
    with http() as (url, got):
        got.refusals = 1
        assert post(url, b'[{"body": "x"}]') == 503
        assert post(url, b'[{"body": "x"}]') == 200
    assert got.bodies == [b"x"]


def test_http_can_take_the_body_as_one_blob() -> None:
    with http(handler="org.apache.flume.sink.solr.morphline.BlobHandler") as (url, got):
        assert post(f"{url}?name=f.bin", b"\x00\x01") == 200
    assert got.events == [Event({"name": "f.bin"}, b"\x00\x01")]


def test_http_refuses_more_than_it_may_take() -> None:
    with http(maxRequestBytes="10") as (url, _):
        assert post(url, b"x" * 11) == 413
