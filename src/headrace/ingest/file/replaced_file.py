"""Replaces small files atomically."""

import os
from pathlib import Path


def replace_file(path: Path, content: str, *, sync: bool = True, private: bool = False) -> None:
    """Write a file so that a crash leaves the old or the new content, never a part.

    Args:
        sync: survive a power loss too, not only kill -9.
        private: only the owner may read it.
    """
    scratch = path.with_name(path.name + ".tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch.open("w") as file:
        if private:
            os.fchmod(file.fileno(), 0o600)
        file.write(content)
        if sync:
            file.flush()
            os.fdatasync(file.fileno())
    scratch.replace(path)
