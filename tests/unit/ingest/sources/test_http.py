"""The HTTP source: requests to events, and the status that it answers with."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from headrace.ingest.event import Event
from headrace.ingest.sources.http import HttpSource
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import RecordingProcessor, source_alone

HERE = {"bind": "127.0.0.1", "port": "0"}


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


def test_http_serves_no_more_connections_than_it_may() -> None:
    with http(threads="2") as (url, _):
        port = int(url.rsplit(":", 1)[1].rstrip("/"))
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for each in idle:
            each.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n")

        def refused() -> bool:
            try:
                return post(url, b"[]") == 503
            except OSError:  # it answers without reading, and closes
                return True

        wait_until(refused, what="a refusal")
        for each in idle:
            each.close()
        wait_until(lambda: not refused(), what="a free place")


def test_http_keeps_no_more_bodies_in_memory_than_it_may() -> None:
    with http(maxRequestBytes="100", maxBodyBytes="150") as (url, _):
        port = int(url.rsplit(":", 1)[1].rstrip("/"))

        def is_refused_beside_a_slow_one() -> bool:
            with socket.create_connection(("127.0.0.1", port)) as slow:
                slow.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n[")
                refused = post(url, b"[]" + b" " * 60) == 503
                return refused and post(url, b"[]") == 200

        # Again with a new connection: the one before may have come after its probe, and be refused.
        wait_until(is_refused_beside_a_slow_one, what="a refusal")
        wait_until(lambda: post(url, b"[]" + b" " * 60) == 200, what="room for the body")


def test_http_ends_a_request_that_comes_too_slowly() -> None:
    with http(requestTimeout="300") as (url, _):
        port = int(url.rsplit(":", 1)[1].rstrip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
            slow.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
            slow.settimeout(0.1)
            answer = b""
            for _ in range(600):
                try:
                    slow.sendall(b" ")
                    answer += slow.recv(1000)
                except TimeoutError:
                    continue
                except OSError:
                    # The answer, and the end of the connection, came before the last byte was sent.
                    with suppress(OSError):
                        answer += slow.recv(1000)
                    break
                break
    assert b" 408 " in answer


def test_json_that_takes_too_much_memory_is_refused_before_it_is_read() -> None:
    """Each of its objects has three bytes and becomes ninety."""
    with http(maxRequestBytes="400000", maxBodyBytes="400000") as (url, got):
        assert post(url, b"[" + b"{}," * 100_000 + b"{}]") == 413
        inner = json.dumps([{"a": 1}] * 25).replace(" ", "")
        large = json.dumps([{"body": inner}] * 1000).encode()
        # The refused body gives its room back just after the answer.
        wait_until(lambda: post(url, large) == 200, what="room for the body")
    assert len(got.bodies) == 1000


@pytest.mark.parametrize("character", ["x", "é", "好", "😀"])
def test_no_request_is_refused_for_the_width_of_a_character(character: str) -> None:
    event = {"headers": {"host": "web1"}, "body": "x" * 200}
    events = [{"body": character}, *[event] * 10_000]
    body = json.dumps(events, ensure_ascii=False).encode()
    with http(maxRequestBytes=str(len(body)), maxBodyBytes=str(len(body))) as (url, got):
        assert post(url, body) == 200
    assert len(got.bodies) == len(events)
