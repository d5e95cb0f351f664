"""Redirects the standard error of child processes to a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STDERR = 2


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Redirect the standard error of every process that is started in the context, for its whole
    life. The standard error of this process is restored at the end.

    Without it, the Java process of Spark would print into a live table.
    """
    kept = os.dup(_STDERR)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, _STDERR)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(log)
        os.close(kept)
