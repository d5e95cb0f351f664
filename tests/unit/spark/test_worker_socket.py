"""A task's input reaches its worker at once, though Spark sends it in two writes."""

import pickle
import socket
import sys
import time
from collections.abc import Callable

import pytest
from pyspark import TaskContext

from headrace.spark import worker_socket
from headrace.spark.worker_socket import (
    AcknowledgingFunction,
    AcknowledgingInput,
    acknowledge_received,
)

_FUNCTION = b"f" * 11_000
_INPUT = b"i" * 600
# A delayed acknowledgement takes at least 40 ms.
_STALL_SECONDS = 0.035


class _Reader(AcknowledgingInput):
    def __init__(self) -> None:
        self.topic = "clicks"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux acknowledges on request")
def test_the_second_write_of_a_task_does_not_wait_for_a_delayed_acknowledgement() -> None:
    assert _is_quick(acknowledge_received)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux acknowledges on request")
def test_a_reader_that_is_unpickled_in_a_task_acknowledges(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(_Reader())
    monkeypatch.setattr(TaskContext, "_taskContext", object.__new__(TaskContext))

    assert _is_quick(lambda: pickle.loads(pickled))
    assert pickle.loads(pickled).topic == "clicks"


def test_a_function_acknowledges_where_it_is_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(AcknowledgingFunction(iter).__call__)
    calls: list[str] = []
    monkeypatch.setattr(worker_socket, "acknowledge_received", lambda: calls.append("now"))

    outside = pickle.loads(pickled)
    monkeypatch.setattr(TaskContext, "_taskContext", object.__new__(TaskContext))
    inside = pickle.loads(pickled)

    assert list(outside([1, 2])) == list(inside([1, 2])) == [1, 2]
    assert calls == ["now"]


def test_over_unix_sockets_there_is_nothing_to_acknowledge(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(_Reader())
    calls: list[str] = []
    monkeypatch.setattr(worker_socket, "acknowledge_received", lambda: calls.append("now"))
    monkeypatch.setattr(TaskContext, "_taskContext", object.__new__(TaskContext))
    monkeypatch.setenv("PYTHON_UNIX_DOMAIN_ENABLED", "true")

    assert pickle.loads(pickled).topic == "clicks"
    assert calls == []


def _is_quick(between: Callable[[], object]) -> bool:
    """Whether a worker can have its input without a stall: one that is forced happens each time,
    one that a busy machine causes does not."""
    return any(min(_input_seconds(between)) < _STALL_SECONDS for _ in range(20))


def _input_seconds(between: Callable[[], object]) -> list[float]:
    """How long a worker waits for its input, task after task, when it calls `between` after it has
    read the function. It answers each task, as a worker does: that is what delays acknowledgements.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as java,
        listener.accept()[0] as worker,
    ):
        taken = []
        for _ in range(10):
            java.sendall(_FUNCTION)
            java.sendall(_INPUT)
            start = time.monotonic()
            received = _receive(worker, len(_FUNCTION))
            between()
            if received < len(_FUNCTION) + len(_INPUT):
                _receive(worker, len(_FUNCTION) + len(_INPUT) - received)
            taken.append(time.monotonic() - start)
            worker.sendall(b"answer")
            _receive(java, len(b"answer"))
        # The kernel acknowledges the first writes of a connection at once.
        return taken[5:]


def _receive(connection: socket.socket, size: int) -> int:
    received = 0
    while received < size:
        received += len(connection.recv(65_536))
    return received
