"""The users that hold now: the file is read again when it changes.

A file that cannot be read, or has a wrong line, changes nothing, and the log says so once.
"""

import time
from pathlib import Path
from typing import Final

import structlog

from headrace.gateway.access.rights import NOTHING, Rights
from headrace.gateway.access.user import User, Users, read_users
from headrace.gateway.access.user_kind import UserKind
from headrace.model.error import ConfigError

log = structlog.get_logger()

_LOOK_SECONDS: Final = 1.0


class WatchedUsers:
    """The users of a file, looked at once per second while requests come.

    Threads: any; two at once may both read the file.

    Raises:
        ConfigError: the file cannot be used at the start.
    """

    def __init__(self, path: Path, kind: UserKind) -> None:
        self._path = path
        self._kind = kind
        self._stamp = _stamp(path)
        self._users = read_users(path, kind)
        if not len(self._users):
            raise ConfigError(
                f"{path} has no user: write {kind.command} NAME --users {path} {kind.everything}"
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

    def rights_of(self, user: User) -> Rights:
        """Return what a user may do now: nothing once its line is gone or has another secret."""
        found = self.current.find(user)
        return NOTHING if found is None else found.rights

    def _read(self) -> None:
        try:
            self._users = read_users(self._path, self._kind)
        except ConfigError as error:
            log.warning(
                f"{self._kind.service}_users_not_read", error=str(error), kept=len(self._users)
            )
        else:
            log.info(f"{self._kind.service}_users_read", users=len(self._users))


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
