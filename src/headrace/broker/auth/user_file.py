"""The users of SASL PLAIN: a file with `user=password` lines, `#` before a comment.

It is read again when it has changed, so a user can be added while the broker runs. A file that
cannot be read later on keeps the users it had.
"""

import stat
from collections.abc import Mapping
from pathlib import Path

import structlog

from headrace.model.error import ConfigError

log = structlog.get_logger(__name__)


class UserFile:
    """Reads wait for the disk: call `refresh` in a thread."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            ConfigError: the file cannot be read, or a line of it means nothing.
        """
        self._path = path
        self._stamp = self._stamp_now()
        self.passwords: Mapping[str, str] = _read(path)
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            log.warning("others can read the passwords", file=str(path), do="chmod 600")

    def refresh(self) -> None:
        """Read the file again if it is another one than last time."""
        try:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self.passwords = _read(self._path)
                self._stamp = stamp
        except ConfigError as error:
            log.error("the users of PLAIN stay as they were", reason=str(error))

    def _stamp_now(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror or error}") from error
        return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot read {path}: {reason}") from None
    passwords: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        # The line is not shown: it may hold a password.
        user, equals, password = line.partition("=")
        if not equals or not user.strip() or not password.strip():
            raise ConfigError(f"{path}, line {number} is not user=password")
        if user.strip() in passwords:
            raise ConfigError(f"{path}, line {number} names {user.strip()!r} a second time")
        passwords[user.strip()] = password.strip()
    return passwords
