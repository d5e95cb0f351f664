"""The file of master keys: one `key id`, one space, one key of 32 bytes in base64 per line.

A master key never touches a record. It wraps the data keys of streams, which lie in the topic of
streams; without the file they are of no use.
"""

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.gateway.secret_file import check_mode, locked
from headrace.model.error import ConfigError

KEY_BYTES: Final = 32
_ID: Final = re.compile(r"[A-Za-z0-9/_-]{1,256}")
_ARN: Final = re.compile(r"arn:aws[^:]*:kms:[^:]*:\d{12}:(?:key/)?(.+)", re.ASCII)


def read_master_keys(path: Path) -> dict[str, bytes]:
    """Return master keys by their ids, such as `alias/clicks`.

    Raises:
        ConfigError: the file cannot be read, others can read or change it, or a line is wrong. The
            message holds no key.
    """
    try:
        check_mode(path)
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the encryption keys in {path} cannot be read: {error}") from error
    keys: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, _, encoded = text.partition(" ")
        key = _decoded(encoded.strip())
        if not _ID.fullmatch(name) or key is None:
            raise ConfigError(
                f"{path}, line {number}: write a key id, a space, and {KEY_BYTES} bytes in base64"
            )
        if name in keys:
            raise ConfigError(f"{path}, line {number}: {name} is there already")
        keys[name] = key
    if not keys:
        raise ConfigError(
            f"{path} has no key: write one with headrace kinesis encryption-key add NAME "
            f"--encryption-keys {path}"
        )
    return keys


def add_master_key(path: Path, name: str) -> None:
    """Add a new key to the file. A key that is there is never replaced: records need it.

    Crash: the line is whole or not there, because it is one short write. Only the owner of a new
    file can read it.

    Raises:
        ConfigError: the name is no key id or is there already, or the file cannot be written.
    """
    if not _ID.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no key id: write letters, digits, hyphens, underscores and slashes, "
            "such as alias/clicks"
        )
    with locked(path.parent):
        known = read_master_keys(path) if path.exists() and path.read_bytes().strip() else {}
        if name in known:
            raise ConfigError(f"{name} is in {path} already: records are encrypted under it")
        _append(path, name)


def _append(path: Path, name: str) -> None:
    line = f"{name} {base64.b64encode(os.urandom(KEY_BYTES)).decode()}\n"
    try:
        text = path.read_text() if path.exists() else ""
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(line if not text or text.endswith("\n") else f"\n{line}")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def master_key_id(keys: Mapping[str, bytes], wish: str) -> str | None:
    """Return the id of the key that a request names, by its id or by an ARN with it."""
    found = _ARN.fullmatch(wish)
    name = wish if found is None else found[1]
    return name if name in keys else None


def _decoded(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None
