"""The TCP connection between Spark's Java process and a Python worker, without its 40 ms stalls.

Spark sends a task to a Python worker in two writes: the function, then the input. It leaves Nagle's
algorithm on, so that the second write waits until the first is acknowledged. The kernel of the
worker delays this acknowledgement by 40 ms, because a worker that is reused has so far answered
everything with data: every task begins with a stall, and a short micro-batch takes twice as long.

A reader or writer is unpickled exactly between the two: the worker has read the function, and has
not read the input. There the acknowledgement is sent. (A setting could not do it: Linux returns to
delayed acknowledgements by itself, whenever the worker sends something.)

Over Unix domain sockets (`socket_folder`) there is nothing to do.
"""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_DESCRIPTORS: Final = Path("/proc/self/fd")
_TCP: Final = frozenset({socket.AF_INET, socket.AF_INET6})
# Linux only; without it there is nothing to do.
_QUICK_ACK: Final = getattr(socket, "TCP_QUICKACK", None)


class AcknowledgingInput:
    """Base of readers and writers: acknowledges Spark's first write when it is unpickled in a
    task."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Imported here: programs that only describe a flow load this file without Spark.
        from pyspark import TaskContext

        self.__dict__.update(state)
        # Only in a task: processes that plan get a request in one piece.
        if TaskContext.get() is not None and not _over_unix_sockets():
            acknowledge_received()


class AcknowledgingFunction(AcknowledgingInput):
    """A function over Arrow batches, for Spark's `mapInArrow`, which acknowledges likewise.

    Example:
        rows.mapInArrow(AcknowledgingFunction(encode).__call__, "output BINARY")
    """

    def __init__(self, function: Callable[[Any], Iterator[Any]]) -> None:
        self._function = function

    def __call__(self, batches: Any) -> Iterator[Any]:
        return self._function(batches)


def _over_unix_sockets() -> bool:
    """Return whether Spark reaches this process through them, which it says in a variable."""
    return os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() == "true"


def acknowledge_received() -> None:
    """Acknowledge what this process has received over TCP, now, and send without delays.

    Spark does not say which descriptor is its connection, so this does it for all: to acknowledge
    early, or to send early what was flushed, does a connection to a broker no harm.
    """
    if _QUICK_ACK is None:
        return
    with suppress(OSError):
        for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208, names are numbers
            with suppress(OSError):
                _acknowledge(int(name), _QUICK_ACK)


def _acknowledge(descriptor: int, quick_ack: int) -> None:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        if copy.family in _TCP and copy.type == socket.SOCK_STREAM:
            copy.setsockopt(socket.IPPROTO_TCP, quick_ack, 1)
            copy.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
