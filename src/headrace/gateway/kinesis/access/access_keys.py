"""The file of access keys: one `access key id`, one space, one `secret` per line."""

import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.model.error import ConfigError

_ID: Final = re.compile(r"[A-Za-z0-9_-]{3,128}")
_SECRET: Final = re.compile(r"[\x21-\x7e]{8,128}")


def read_access_keys(path: Path) -> dict[str, str]:
    """Return secrets by access key id.

    Raises:
        ConfigError: the file cannot be read, has no key, or a line is wrong. The message holds no
            secret.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the access keys in {path} cannot be read: {error}") from error
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, _, secret = text.partition(" ")
        if not _ID.fullmatch(name) or not _SECRET.fullmatch(secret.strip()):
            raise ConfigError(f"{path}, line {number}: write an access key id, a space, a secret")
        keys[name] = secret.strip()
    if not keys:
        raise ConfigError(
            f"{path} has no access key, and without one every signature would be accepted: write"
            f" one with headrace kinesis key add NAME --keys {path}"
        )
    return keys


def add_access_key(path: Path, name: str) -> str:
    """Add a key to the file, or replace its secret; return the new secret.

    Crash: the file is replaced in one step. Only its owner can read it.

    Raises:
        ConfigError: the name is no access key id, or the file cannot be read or written.
    """
    if not _ID.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no access key id: it has 3 to 128 letters, digits, hyphens, underscores"
        )
    keys = read_access_keys(path) if path.exists() and path.read_bytes().strip() else {}
    keys[name] = secrets.token_urlsafe(30)
    _write(path, keys)
    return keys[name]


def _write(path: Path, keys: Mapping[str, str]) -> None:
    text = "".join(f"{name} {secret}\n" for name, secret in keys.items())
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w") as file:  # mkstemp: mode 600
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
