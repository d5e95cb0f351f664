"""The file of access keys: one `access key id`, one space, one `secret` per line.

A key of another account has a third word, the ARN of its user. It may do what policies allow.
"""

import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from headrace.gateway.secret_file import check_mode, locked
from headrace.model.error import ConfigError

_ID: Final = re.compile(r"[A-Za-z0-9_-]{3,128}")
_MOST_BYTES: Final = 1 << 20
_SECRET: Final = re.compile(r"[\x21-\x7e]{8,128}")
_PRINCIPAL: Final = re.compile(
    r"arn:aws[a-z-]*:iam::\d{12}:(?:user|role)/[\w+=,.@/-]{1,128}", re.ASCII
)


class AccessKey(NamedTuple):
    """A secret, and the ARN of the user who has it, empty for the own account."""

    secret: str
    principal: str = ""


def read_access_keys(path: Path) -> dict[str, AccessKey]:
    """Return keys by access key id.

    Raises:
        ConfigError: as `parse_access_keys`, or the file has no key.
    """
    keys = parse_access_keys(path)
    if not keys:
        raise ConfigError(
            f"{path} has no access key, and without one every signature would be accepted: write"
            f" one with headrace kinesis key add NAME --keys {path}"
        )
    return keys


def parse_access_keys(path: Path) -> dict[str, AccessKey]:
    """Return keys by access key id; the file may have none.

    Raises:
        ConfigError: the file cannot be read, others can read or change it, it is too large, or a
            line is wrong. The message holds no secret.
    """
    try:
        check_mode(path)
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigError(f"{path} has more than {_MOST_BYTES} bytes: it is no file of keys")
        lines = data.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the access keys in {path} cannot be read: {error}") from error
    keys: dict[str, AccessKey] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, secret, principal = (*text.split(maxsplit=2), "", "")[:3]
        if not _ID.fullmatch(name) or not _SECRET.fullmatch(secret):
            raise ConfigError(f"{path}, line {number}: write an access key id, a space, a secret")
        if principal and not _PRINCIPAL.fullmatch(principal):
            raise ConfigError(
                f"{path}, line {number}: the third word must be the ARN of a user, such as "
                "arn:aws:iam::111122223333:user/bob"
            )
        keys[name] = AccessKey(secret, principal)
    return keys


def add_access_key(path: Path, name: str, principal: str = "") -> str:
    """Add a key to the file, or replace its secret; return the new secret.

    Crash: the file is replaced in one step. Only its owner can read it.
    Threads, processes: the folder is locked meanwhile, so that none of two keys gets lost.

    Args:
        principal: the ARN of a user of another account; empty for the own one, or for what a key
            that is there already has: a new secret must not make its user an owner.

    Raises:
        ConfigError: the name is no access key id, or the file cannot be read or written.
    """
    if not _ID.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no access key id: it has 3 to 128 letters, digits, hyphens, underscores"
        )
    if principal and not _PRINCIPAL.fullmatch(principal):
        raise ConfigError(
            f"{principal!r} is no ARN of a user: write one such as "
            "arn:aws:iam::111122223333:user/bob"
        )
    with locked(path.parent):
        keys = read_access_keys(path) if path.exists() and path.read_bytes().strip() else {}
        principal = principal or keys.get(name, AccessKey("")).principal
        keys[name] = AccessKey(secrets.token_urlsafe(30), principal)
        _write(path, keys)
    return keys[name].secret


def _write(path: Path, keys: Mapping[str, AccessKey]) -> None:
    text = "".join(f"{' '.join((name, *key)).strip()}\n" for name, key in keys.items())
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w") as file:  # mkstemp: mode 600
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
