"""The users of a registry: which subjects they may read and write. Who may write may read."""

from typing import Final

from headrace.gateway.access.rights import Rights
from headrace.gateway.access.user_kind import UserKind


def _qualify(prefix: str) -> str:
    """Return a prefix of qualified names: `.europe:` names a context, which begins with `:`."""
    return f":{prefix}" if prefix.startswith(".") else prefix


SUBJECT_USERS: Final = UserKind("registry", ("read", "write"), "--write '*'", _qualify)


def can_read(rights: Rights, subject: str) -> bool:
    """Return whether a user with these rights may read a subject."""
    return rights.covers(subject, "read", "write")


def can_write(rights: Rights, subject: str) -> bool:
    """Return whether a user with these rights may write a subject."""
    return rights.covers(subject, "write")
