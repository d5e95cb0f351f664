"""`supervisor.lock` in a data directory: one `headrace up --brokers N` at a time runs there.

A lock of the kernel on an open file: it ends with its process, however that ends, so that nothing
is left of a supervisor that was killed. The file stays, and names the last process that had it.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from headrace.log.directory_lock import LOCK_NAME as BROKER_LOCK_NAME
from headrace.model.error import ConfigError

LOCK_NAME: Final = "supervisor.lock"
_LONGEST_PID: Final = 20


class SupervisorLock:
    """Held from construction to `release`.

    Raises:
        ConfigError: another supervisor, or a single broker, runs in this directory; or it cannot be
            made.
    """

    def __init__(self, home: Path) -> None:
        path = home / LOCK_NAME
        try:
            home.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise ConfigError(f"{path} cannot be made: {error.strerror or error}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise ConfigError(_refusal(home)) from error
        if _is_locked(home / BROKER_LOCK_NAME):
            self.release()
            raise ConfigError(
                f"a single broker runs in {home}: stop that one, or choose another --data"
            )
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def refuse_supervised(directory: Path) -> None:
    """Refuse a directory in which the brokers of a supervisor run: it is no single broker's.

    Raises:
        ConfigError: a supervisor runs there.
    """
    if _is_locked(directory / LOCK_NAME):
        raise ConfigError(_refusal(directory))


def _refusal(home: Path) -> str:
    holder = ""
    with suppress(OSError):
        text = (home / LOCK_NAME).read_bytes()[:_LONGEST_PID].decode(errors="replace")
        holder = f" (process {text})" if text.isdigit() else ""
    return f"another headrace up{holder} runs in {home}: stop that one, or choose another --data"


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # no process has it, or it is not ours to look at
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
