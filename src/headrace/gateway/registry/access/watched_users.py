"""The users that hold now: the file is read again when it changes.

A file that cannot be read, or has a wrong line, changes nothing, and the log says so once.
"""

import time
from pathlib import Path
from typing import Final

import structlog

from headrace.gateway.registry.access.user import Users, read_users
from headrace.model.error import ConfigError

log = structlog.get_logger()

_LOOK_SECONDS: Final = 1.0


class WatchedUsers:
    """The users of a file, looked at once per second while requests come.

    Threads: any; two at once may both read the file.

    Raises:
        ConfigError: the file cannot be used at the start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._users = read_users(path)
        if not len(self._users):
            raise ConfigError(
                f"{path} has no user: write headrace registry user add NAME --users {path} "
                "--write '*'"
            )
        self._next_look = time.monotonic() + _LOOK_SECONDS

    @property
    def current(self) -> Users:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._read()
        return self._users

    def _read(self) -> None:
        try:
            self._users = read_users(self._path)
        except ConfigError as error:
            log.warning("registry_users_not_read", error=str(error), kept=len(self._users))
        else:
            log.info("registry_users_read", users=len(self._users))


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
