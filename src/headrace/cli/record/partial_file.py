"""Output that has its name only when it is whole.

A crash, a full disk or Ctrl-C leaves at most a hidden file `.NAME.*.partial` beside it; nothing
that looks like a finished export ever is half of one.
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
    """The disk, or its permissions, did not let us write what was asked for."""


@contextmanager
def partial_file(path: Path, *, replace: bool) -> Iterator[Path]:
    """A file to write to, which becomes `path` at the end of the block.

    Raises:
        InvalidArgument: there is such a file, and it is not to be replaced.
        OutputFailed: the operating system says no.
    """
    if path.exists() and not replace:
        raise InvalidArgument(f"{path} is there already: give --force to replace it")
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
    """A directory to write to, which becomes `path` at the end of the block.

    Raises:
        InvalidArgument: something is there already that is no empty directory.
        OutputFailed: the operating system says no.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidArgument(f"{path} is not empty: name a directory that is not there yet")
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
    """Temporary files are for their owner alone; the finished one is for whom the user allows."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
