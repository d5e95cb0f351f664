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
    """Users and passwords. `refresh` waits for the disk: call it in a thread."""

    def __init__(self, path: Path) -> None:
        """Read the users.

        Raises:
            ConfigError: the file cannot be read, or a line of it is not user=password.
        """
        self._path = path
        self._stamp = self._stamp_now()
        self.passwords: Mapping[str, str] = _read(path)
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            log.warning("password_file_readable_by_others", file=str(path), do="chmod 600")

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        try:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self.passwords = _read(self._path)
                self._stamp = stamp
        except ConfigError as error:
            log.error("password_file_not_reloaded", reason=str(error))

    def only_user(self) -> tuple[str, str]:
        """Return user and password of a file that names one.

        Raises:
            ConfigError: it names none, or several.
        """
        if len(self.passwords) != 1:
            raise ConfigError(
                f"{self._path} has {len(self.passwords)} users: write one, as whom brokers log in"
            )
        ((user, password),) = self.passwords.items()
        return user, password

    def _stamp_now(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror or error}") from error
        return status.st_mtime_ns, status.st_ino, status.st_size


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
