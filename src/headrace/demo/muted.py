"""Starting a talkative child quietly."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STDERR = 2


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Let processes that are started inside write their standard error to a file, for their whole
    life: Spark's Java would write into the live table. Ours comes back at the end."""
    kept = os.dup(_STDERR)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, _STDERR)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(log)
        os.close(kept)
