"""How much of a disk compaction may fill."""

from pathlib import Path
from typing import Final

from headrace.log.storage import Storage

RESERVED_BYTES: Final = 64 * 1024 * 1024
"""What compaction leaves of the disk to appends: it can wait, and they cannot."""


def room_bytes(storage: Storage, directory: Path) -> int:
    """Return how much compaction may write into a log directory now; below 0 when less than the
    reserve is left.

    Raises:
        StorageError: the disk does not say.
    """
    with storage.io(f"look for room in {directory}"):
        return storage.filesystem.free_bytes(directory) - RESERVED_BYTES
