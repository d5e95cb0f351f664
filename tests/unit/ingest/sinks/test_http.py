"""The HTTP sink, against our own HTTP source and against a server that refuses."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.sink import Sink
from headrace.ingest.sources.http import HttpSource
from headrace.model.error import ConfigError
from headrace.telemetry.http_server import HttpServer
from testkit.sample.ingest_agent import make, source_alone


def http_sink(endpoint: str, **texts: str) -> Sink:
    sink = make("sink", "http", {"endpoint": endpoint, **texts})
    assert isinstance(sink, Sink)
    return sink


@contextmanager
def answering(status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with HttpServer("127.0.0.1", 0, Handler, name="sink's peer") as server:
        yield f"http://{server.address}/in"


def test_each_event_is_posted() -> None:
    texts = {"bind": "127.0.0.1", "port": "0", "handler": "blob"}
    with source_alone("http", texts) as (source, got):
        assert isinstance(source, HttpSource)
        sink = http_sink(f"http://127.0.0.1:{source.port}/?from=sink")
        sink.deliver(EventBatch.plain([b"one", b"two"]))
        sink.stop()
    assert got.bodies == [b"one", b"two"]
    assert got.events[0].headers == {"from": "sink"}


def test_a_refusal_is_tried_again() -> None:
    with answering(503) as url, pytest.raises(DeliveryFailed, match="answered 503"):
        http_sink(url).deliver(EventBatch.plain([b"x"]))


def test_a_code_can_mean_that_the_event_is_dropped() -> None:
    with answering(400) as url:
        sink = http_sink(url, **{"rollback.4XX": "false"})
        sink.deliver(EventBatch.plain([b"x"]))
        sink.stop()


def test_an_unreachable_server_is_a_failed_delivery() -> None:
    with answering(200) as url:
        pass
    with pytest.raises(DeliveryFailed, match="cannot post to"):
        http_sink(url).deliver(EventBatch.plain([b"x"]))


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"endpoint 'ftp://x' is no http\(s\) address"):
        http_sink("ftp://x")
