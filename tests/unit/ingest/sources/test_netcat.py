"""The netcat source: a line is an event, and every line is answered."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.ingest.sources.netcat import NetcatSource
from testkit.sample.ingest_agent import RecordingProcessor, source_alone

HERE = {"bind": "127.0.0.1", "port": "0"}


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
