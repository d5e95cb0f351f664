"""The file of access keys: one `access key id`, one space, one `secret` per line."""

import fcntl
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.model.error import ConfigError

_ID: Final = re.compile(r"[A-Za-z0-9_-]{3,128}")
_SECRET: Final = re.compile(r"[\x21-\x7e]{8,128}")


def read_access_keys(path: Path) -> dict[str, str]:
    """Return secrets by access key id.

    Raises:
        ConfigError: the file cannot be read, others can read or change it, it has no key, or a line
            is wrong. The message holds no secret.
    """
    try:
        _check_mode(path)
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


def _check_mode(path: Path) -> None:
    """Refuse a file that is open to others. Its group may read it, as mounted secrets are."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise ConfigError(
            f"{path} has secrets, and its mode {mode:03o} lets others read or change it: "
            f"write chmod 600 {path}"
        )


def add_access_key(path: Path, name: str) -> str:
    """Add a key to the file, or replace its secret; return the new secret.

    Crash: the file is replaced in one step. Only its owner can read it.
    Threads, processes: the folder is locked meanwhile, so that none of two keys gets lost.

    Raises:
        ConfigError: the name is no access key id, or the file cannot be read or written.
    """
    if not _ID.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no access key id: it has 3 to 128 letters, digits, hyphens, underscores"
        )
    with _locked(path.parent):
        keys = read_access_keys(path) if path.exists() and path.read_bytes().strip() else {}
        keys[name] = secrets.token_urlsafe(30)
        _write(path, keys)
    return keys[name]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder, not the file in it: that is replaced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
