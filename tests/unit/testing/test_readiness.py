"""Waiting ends when the condition holds; a port that answers is not yet a broker."""

import itertools
import socket
import struct
import threading

import pytest

from headrace.testing.readiness import answers_kafka, free_port, wait_until


def test_waiting_ends_when_the_condition_holds() -> None:
    calls = itertools.count()
    wait_until(lambda: next(calls) == 3, what="the fourth call")
    assert next(calls) == 4


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(TimeoutError, match="the flood did not come about in 0 s"):
        wait_until(lambda: False, what="the flood", timeout_seconds=0)


def test_nobody_listening_is_no_broker() -> None:
    assert not answers_kafka("127.0.0.1", free_port())


@pytest.mark.parametrize(
    ("answer", "is_broker"),
    [
        (struct.pack(">iihi", 10, 7, 0, 0), True),
        (struct.pack(">iihi", 10, 7, 35, 0), False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (b"", False),
    ],
    ids=["answers", "refuses", "speaks http", "hangs up"],
)
def test_only_an_answered_request_makes_a_broker(answer: bytes, is_broker: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(14, socket.MSG_WAITALL)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        answered = answers_kafka("127.0.0.1", server.getsockname()[1])
        thread.join()

    assert answered is is_broker
