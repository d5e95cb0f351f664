"""The users of a gateway, from a file: who they are, and what they may do.

One line per user: `name sha256$DIGEST right ...`, with rights such as `read:*` and `write:orders-`.
A right covers every name that begins with its text; `*` covers all. Lines that begin with `#` are
comments.

The secret is made by `headrace registry user add` and the like: 256 random bits. No guessing finds
it, so a plain digest in the file is enough, and a request is checked in microseconds. It is the
password of Basic and the token of Bearer alike.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.gateway.access.rights import Rights
from headrace.gateway.access.user_kind import UserKind
from headrace.gateway.secret_file import check_mode, locked
from headrace.model.error import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_DIGEST: Final = re.compile(r"sha256\$[0-9a-f]{64}")
_RIGHT: Final = re.compile(r"([a-z]+):(\S+)")
_MOST_LETTERS: Final = 512
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class User:
    name: str
    digest: str
    rights: Rights


class Users:
    """The users of one file.

    Raises:
        ConfigError: naming the line that is wrong.
    """

    def __init__(self, text: str, kind: UserKind, origin: str = "the users file") -> None:
        self._users: dict[str, User] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                user = _parse_line(line, kind, f"{origin}, line {number}")
                self._users[user.name] = user
        self._by_digest = {each.digest: each for each in self._users.values()}

    def __len__(self) -> int:
        return len(self._users)

    def find(self, user: User) -> User | None:
        """Return a user as it is in this file; None if it is gone or has another secret."""
        found = self._users.get(user.name)
        return found if found is not None and found.digest == user.digest else None

    def authenticate(self, authorization: str) -> User | None:
        """Return the user of an Authorization header, Basic or Bearer; None if it is of none."""
        scheme, _, text = authorization.partition(" ")
        if len(text) > _MOST_LETTERS:
            return None
        if scheme.lower() == "bearer":
            return self._by_digest.get(digest_of(text.strip()))
        if scheme.lower() != "basic":
            return None
        try:
            name, mark, secret = base64.b64decode(text, validate=True).decode().partition(":")
        except ValueError:  # no Base64, or not of a text
            return None
        user = self._users.get(name)
        if user is None or not mark:
            return None
        return user if hmac.compare_digest(user.digest, digest_of(secret)) else None


def digest_of(secret: str) -> str:
    """Return the text that stands for a secret in the file."""
    return "sha256$" + hashlib.sha256(secret.encode()).hexdigest()


def read_users(path: Path, kind: UserKind) -> Users:
    """Read the file.

    Raises:
        ConfigError: it cannot be read, is open to others, or has a wrong line.
    """
    try:
        check_mode(path)
        return Users(path.read_text(), kind, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the users file {path}: {error}") from error


def add_user(path: Path, kind: UserKind, name: str, rights: list[str]) -> str:
    """Add a user, or give one of that name a new secret and these rights; return the secret.

    Raises:
        ConfigError: the name or a right has another form, or the file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name: use letters, digits and . _ @ -")
    for each in rights:
        if _parse_right(each, kind) is None:
            raise ConfigError(f"{each!r} is no right: write {kind.forms}")
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    with locked(path.absolute().parent):
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines if line.split(" ", 1)[0] != name]
        kept.append(" ".join((name, digest_of(secret), *rights)))
        draft = path.with_name(f".{path.name}.new")
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        draft.write_text("\n".join(kept) + "\n")
        draft.replace(path)
    return secret


def _parse_line(line: str, kind: UserKind, where: str) -> User:
    name, digest, *rights = (*line.split(), "")
    if not _NAME.fullmatch(name) or not _DIGEST.fullmatch(digest):
        raise ConfigError(
            f"{where} is no user: write name sha256$... read:PREFIX write:PREFIX, or let "
            f"{kind.command} write it"
        )
    prefixes: dict[str, tuple[str, ...]] = {}
    for right in filter(None, rights):
        found = _parse_right(right, kind)
        if found is None:
            raise ConfigError(f"{where} has {right!r}: write {kind.forms}")
        verb, prefix = found
        prefixes[verb] = (*prefixes.get(verb, ()), prefix)
    return User(name, digest, Rights(**prefixes))


def _parse_right(text: str, kind: UserKind) -> tuple[str, str] | None:
    """Return a right and the prefix of the names that it covers."""
    found = _RIGHT.fullmatch(text)
    if found is None or found[1] not in kind.verbs:
        return None
    return found[1], kind.qualify(found[2].removesuffix("*"))
