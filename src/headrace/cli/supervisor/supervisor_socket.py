"""`supervisor.sock` in a data directory: how a command reaches the supervisor of `headrace up`.

One request per connection: a line of JSON each way. The supervisor answers from its main loop: a
client that sends nothing, too slowly or too much, is dropped after `_PATIENCE_SECONDS`.

There is no login: only the user that runs the supervisor, and root, may ask. The file's mode says
so, and the kernel names the user at the other end of each connection: it counts should the mode be
changed. A command looks at that user as well: in a directory that others can write to, one of them
may have put a socket there whose answers would send the command's login to a foreign address.
"""

import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from headrace.client.error import ClientError
from headrace.model.error import ConfigError

SOCKET_NAME: Final = "supervisor.sock"
_PATIENCE_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 30.0
_MAX_BYTES: Final = 64 * 1024
_ROOT: Final = 0
_CREDENTIALS: Final = struct.Struct("3i")  # process, user and group

_FOREIGN: Final = "this headrace up belongs to another user: run this command as that one"

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class SupervisorSocket:
    """The supervisor's end. For one thread, whose process has the `SupervisorLock`.

    Attributes:
        problem: why no command can be served, on a file system without sockets; else None.

    Raises:
        ConfigError: another supervisor runs in this directory, or it cannot be made.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / SOCKET_NAME
        self.problem: str | None = None
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{home} cannot be made: {error.strerror or error}") from error
        if _is_served(home):  # by one of an earlier release, without a lock
            raise ConfigError(
                f"another headrace up runs in {home}: stop that one, or choose another --data"
            )
        self._user = os.geteuid()
        self._socket = socket.socket(socket.AF_UNIX)
        former = os.umask(0o177)
        try:
            self._path.unlink(missing_ok=True)  # left by one that was killed
            with _short_path(home) as path:
                self._socket.bind(path)
            self._socket.listen()
        except OSError as error:
            self.problem = f"{self._path} cannot be made: {error.strerror or error}"
        finally:
            os.umask(former)

    def serve(self, seconds: float, answer: Answer) -> None:
        """Wait for a request for so long at most, and answer it."""
        self._socket.settimeout(seconds)
        try:
            connection, _ = self._socket.accept()
        except TimeoutError:
            return
        except OSError:  # no socket, or no more descriptors
            time.sleep(seconds)
            return
        with connection, suppress(OSError):
            connection.settimeout(_PATIENCE_SECONDS)
            if _peer_user(connection) not in (self._user, _ROOT):
                connection.sendall(_line({"error": _FOREIGN}))
                return
            line = _read_line(connection, _PATIENCE_SECONDS)
            connection.settimeout(_PATIENCE_SECONDS)
            connection.sendall(_answered(line, answer))

    def close(self) -> None:
        if self.problem is None:
            self._path.unlink(missing_ok=True)
        self._socket.close()


def ask_supervisor(home: Path, request: Mapping[str, Any]) -> Any:
    """Send a request to the supervisor of a data directory, and return its answer.

    Raises:
        ClientError: no supervisor runs there, or it refuses the request; the message says why.
    """
    try:
        with _short_path(home) as path, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(path)
            if _peer_user(connection) not in (os.geteuid(), _ROOT, home.stat().st_uid):
                raise ClientError(
                    f"{home / SOCKET_NAME} is served by a user to whom {home} does not belong: "
                    "nothing was sent"
                )
            connection.sendall(_line(request))
            answer = json.loads(_read_line(connection, _ANSWER_SECONDS))
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise ClientError(
            f"no headrace up with several brokers runs in {home}: name its data directory with "
            "--data; a broker that was started by itself is restarted where it was started"
        ) from error
    except PermissionError as error:
        raise ClientError(
            f"the headrace up in {home} belongs to another user: run this command as that one"
        ) from error
    except (OSError, ValueError) as error:
        raise ClientError(
            f"the headrace up in {home} does not answer: {error}; it may be stopping"
        ) from error
    if "error" in answer:
        raise ClientError(str(answer["error"]))
    return answer


def _peer_user(connection: socket.socket) -> int:
    """Return the id of the user at the other end, which the kernel has noted."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def _answered(line: bytes, answer: Answer) -> bytes:
    """Return the line to answer. No request may end the supervisor: its brokers end with it."""
    try:
        request = _parsed(line)
        if request is None:
            return _line({"error": "a request is a JSON object on one line"})
        return _line(answer(request))
    except Exception as error:  # noqa: BLE001, whatever it is, the client gets it
        return _line({"error": f"the request failed: {type(error).__name__}: {error}"})


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):  # the second from brackets within brackets
        return None
    return request if isinstance(request, dict) else None


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _read_line(connection: socket.socket, seconds: float) -> bytes:
    """Read a line, for so long at most: a byte now and then does not buy more time.

    Raises:
        TimeoutError: it did not come in time.
    """
    deadline = time.monotonic() + seconds
    received = b""
    while not received.endswith(b"\n") and len(received) < _MAX_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no line in {seconds:g} s")
        connection.settimeout(left)
        piece = connection.recv(4096)
        if not piece:
            break
        received += piece
    return received


def _is_served(home: Path) -> bool:
    try:
        with _short_path(home) as path, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PATIENCE_SECONDS)
            connection.connect(path)
    except OSError:
        return False
    return True


@contextmanager
def _short_path(home: Path) -> Iterator[str]:
    """Return a name of the socket that is short enough: a Unix address has 108 bytes at most."""
    descriptor = os.open(home, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)
