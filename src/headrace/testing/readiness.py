"""Waiting for a condition instead of for a time."""

import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

# ApiVersions v0 with correlation id 7 and no client id: the one request every broker answers, and
# answers only when it is open for requests.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
_ANSWER_HEAD = struct.Struct(">iih")

_POLL_SECONDS = 0.02
_FIRST_PORT, _LAST_PORT = 12_000, 32_000


def wait_until(condition: Callable[[], bool], *, what: str, timeout_seconds: float = 90.0) -> None:
    """Return as soon as `condition` holds.

    Raises:
        TimeoutError: naming `what` did not come about.

    >>> wait_until(lambda: True, what="nothing")
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come about in {timeout_seconds:g} s")
        time.sleep(_POLL_SECONDS)


def answers_kafka(host: str, port: int) -> bool:
    """Return whether a Kafka broker serves requests at an address."""
    try:
        with socket.create_connection((host, port), timeout=10) as connection:
            connection.sendall(_API_VERSIONS)
            head = connection.recv(_ANSWER_HEAD.size, socket.MSG_WAITALL)
    except OSError:
        return False
    if len(head) < _ANSWER_HEAD.size:
        return False
    _size, correlation_id, error_code = _ANSWER_HEAD.unpack(head)
    return bool(correlation_id == 7 and error_code == 0)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port that is free now; another process may bind it before you do.

    From below the range that the kernel hands out for port 0: a server that is down for a
    moment must find its port free when it starts again, whatever else connects meanwhile.
    """
    while True:
        port = random.SystemRandom().randrange(_FIRST_PORT, _LAST_PORT)
        with suppress(OSError), socket.create_server((host, port)):
            return port
