"""The users of the console, from a file with one line per user.

`name:role:scrypt$N$r$p$salt$hash`, salt and hash in base64. Passwords are never stored. Lines that
begin with `#` are comments.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from headrace.model.error import ConfigError

# What OWASP asks of scrypt for interactive logins: 64 MiB, some 100 ms.
_N: Final = 2**16
_R: Final = 8
_P: Final = 1
_MAX_MEMORY: Final = 128 * 1024 * 1024
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
# Without a bound, any client could make the console hash a password of megabytes.
MOST_PASSWORD_LETTERS: Final = 256


class Role(IntEnum):
    """What a user may do. Each role includes the ones before it."""

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3

    @classmethod
    def named(cls, text: str) -> "Role":
        try:
            return cls[text.upper()]
        except KeyError:
            names = ", ".join(each.name.lower() for each in cls)
            raise ConfigError(f"there is no role {text!r}: write one of {names}") from None


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: Role


ANONYMOUS: Final = User("anonymous", Role.ADMIN)
"""The user of every request to a console without a users file, which listens on loopback only."""


class Users:
    """The users of one file, read once.

    Raises:
        ConfigError: naming the line that is wrong.
    """

    def __init__(self, text: str, origin: str = "the users file") -> None:
        self._users: dict[str, tuple[User, str]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, role, password, *_ = (*line.strip().split(":", 2), "", "")
            if not _NAME.fullmatch(name) or not password.startswith("scrypt$"):
                raise ConfigError(
                    f"{origin}, line {number} is no user: write name:role:scrypt$..., or let "
                    "headrace console --users FILE --add-user NAME write it"
                )
            _parse(password, f"{origin}, line {number}")
            self._users[name] = (User(name, Role.named(role)), password)
        if not self._users:
            raise ConfigError(f"{origin} has no user: add one with --add-user NAME")
        # An unknown name takes as long as a wrong password, so that timing reveals no names.
        self._decoy = hash_password(secrets.token_hex(8))

    @classmethod
    def read(cls, path: Path) -> "Users":
        try:
            return cls(path.read_text(), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the users file {path}: {error}") from error

    def authenticate(self, name: str, password: str) -> User | None:
        """Return the user, or None. Takes a tenth of a second of a core."""
        user, stored = self._users.get(name, (None, self._decoy))
        if len(password) > MOST_PASSWORD_LETTERS:
            return None
        return user if verify(password, stored) else None


def hash_password(password: str) -> str:
    """Return the text to store in the file."""
    salt = os.urandom(_SALT_BYTES)
    digest = _scrypt(password, salt, _N, _R, _P)
    parts = (str(_N), str(_R), str(_P), _text(salt), _text(digest))
    return "$".join(("scrypt", *parts))


def verify(password: str, stored: str) -> bool:
    """Return whether this is the password that was stored."""
    n, r, p, salt, digest = _parse(stored, "a stored password")
    return hmac.compare_digest(_scrypt(password, salt, n, r, p), digest)


def add_user(path: Path, name: str, role: Role, password: str) -> None:
    """Add a user to the file, or replace the one of that name. Only its owner may read the file."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name: use letters, digits and . _ @ -")
    if not 8 <= len(password) <= MOST_PASSWORD_LETTERS:
        raise ConfigError(f"a password has 8 to {MOST_PASSWORD_LETTERS} letters")
    lines = path.read_text().splitlines() if path.exists() else []
    kept = [line for line in lines if not line.startswith(f"{name}:")]
    kept.append(f"{name}:{role.name.lower()}:{hash_password(password)}")
    draft = path.with_name(f".{path.name}.new")
    draft.touch(mode=0o600)
    draft.write_text("\n".join(kept) + "\n")
    draft.replace(path)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MAX_MEMORY, dklen=_HASH_BYTES
    )


def _parse(stored: str, where: str) -> tuple[int, int, int, bytes, bytes]:
    try:
        _, n, r, p, salt, digest = stored.split("$")
        numbers = int(n), int(r), int(p)
        if 128 * numbers[0] * numbers[1] > _MAX_MEMORY:
            raise ValueError
        return (*numbers, base64.b64decode(salt, validate=True), base64.b64decode(digest))
    except (ValueError, binascii.Error):
        raise ConfigError(f"{where} has no password that can be checked") from None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
