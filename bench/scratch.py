"""A folder for large files of a benchmark, and how much of the disk it may take."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GIB = 1 << 30
_KEPT_FREE_BYTES = 12 * GIB


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder below `HEADRACE_BENCH_DIR`, or where temporary files go; removed at the end."""
    parent = os.environ.get("HEADRACE_BENCH_DIR")
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def fitting_bytes(folder: Path, wanted: int) -> int:
    """Return `wanted`, or less where the disk would have under 12 GiB left.

    Raises:
        OSError: there is no room for even 1 GiB, or for `wanted` if that is less.
    """
    room = shutil.disk_usage(folder).free - _KEPT_FREE_BYTES
    if room < min(wanted, GIB):
        raise OSError(
            f"the disk of {folder} has too little room for this benchmark: it leaves "
            f"{_KEPT_FREE_BYTES // GIB} GiB free; set HEADRACE_BENCH_DIR or HEADRACE_BENCH_SCALE"
        )
    return min(wanted, room)


def evict(paths: list[Path]) -> None:
    """Write these files to the disk and drop them from the page cache: the next read is cold."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
