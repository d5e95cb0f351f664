"""Output files that get their name only when they are complete.

A crash, a full disk or Ctrl-C leaves at most a hidden file `.NAME.*.partial`. A file under its own
name is never half an export.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.model.error import HeadraceError, InvalidArgument

_SUFFIX = ".partial"


class OutputFailed(HeadraceError):
    """The operating system refused to write the output."""


@contextmanager
def partial_file(path: Path, *, replace: bool) -> Iterator[Path]:
    """Yield a temporary file, and rename it to `path` at the end of the block.

    Raises:
        InvalidArgument: `path` exists and `replace` is not set.
        OutputFailed: the file cannot be written.
    """
    if path.exists() and not replace:
        raise InvalidArgument(f"{path} exists: give --force to replace it")
    with _reported(path):
        descriptor, name = tempfile.mkstemp(_SUFFIX, f".{path.name}.", path.parent)
    os.close(descriptor)
    written = Path(name)
    try:
        with _reported(path):
            yield written
            written.chmod(0o666 & ~_umask())
            _sync(written)
            written.replace(path)
            _sync(path.parent)
    finally:
        written.unlink(missing_ok=True)


@contextmanager
def partial_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory, and rename it to `path` at the end of the block.

    Raises:
        InvalidArgument: `path` exists and is no empty directory.
        OutputFailed: a file cannot be written.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidArgument(f"{path} is not empty: name a directory that does not exist yet")
    path = path.absolute()
    with _reported(path):
        written = Path(tempfile.mkdtemp(_SUFFIX, f".{path.name}.", path.parent))
    try:
        with _reported(path):
            yield written
            for each in written.iterdir():
                _sync(each)
            written.chmod(0o777 & ~_umask())
            _sync(written)
            written.replace(path)
            _sync(path.parent)
    finally:
        shutil.rmtree(written, ignore_errors=True)


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(f"cannot write {path}: {error.strerror or error}") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """Return the umask: a temporary file is readable by its owner only, the finished one follows
    the umask."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
