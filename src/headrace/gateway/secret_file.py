"""Files of secrets: who may read them, and how two programs do not change one at once."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.model.error import ConfigError


def check_mode(path: Path) -> None:
    """Refuse a file that is open to others. Its group may read it, as mounted secrets are.

    Raises:
        ConfigError: others may read or change it.
        OSError: it is not there.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise ConfigError(
            f"{path} has secrets, and its mode {mode:03o} lets others read or change it: "
            f"write chmod 600 {path}"
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, not the file in it: that may be replaced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
