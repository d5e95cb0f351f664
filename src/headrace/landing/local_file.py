"""Files of a table on this machine: a commit must not name files that only another one has."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from headrace.landing.data_file import DataFile
from headrace.landing.error import LandingError

_FILE: Final = re.compile(r"file:(//[^/]*)?(?=/)")
# Two characters at least: C:/ is no scheme.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_path(location: str, path: str) -> Path | None:
    """Return where a file of a table is on this machine; None on another file system.

    Args:
        location: of the table, a path or a URI.
        path: of the file, as the table names it: whole, or below the location.

    >>> local_path("/lake/clicks", "hour=1/a.parquet")
    PosixPath('/lake/clicks/hour=1/a.parquet')
    >>> local_path("s3://lake/clicks", "s3://lake/clicks/a.parquet") is None
    True
    """
    whole = path if _SCHEME.match(path) or path.startswith("/") else f"{location}/{path}"
    whole = _FILE.sub("", whole, count=1) if _FILE.match(whole) else whole
    return None if _SCHEME.match(whole) else Path(whole)


def check_local_files(location: str, files: Iterable[DataFile]) -> None:
    """Check that this machine has the files that another process wrote, each with its whole size.

    Raises:
        LandingError: one is missing, or has another size.
    """
    for each in files:
        path = local_path(location, each.path)
        if path is None:
            continue
        size = path.stat().st_size if path.exists() else None
        if size != each.size_bytes:
            what = "is not on this machine" if size is None else f"has {size} bytes here"
            raise LandingError(
                f"{path}, of {each.size_bytes} bytes, {what}: an executor wrote it to a disk of "
                "its own, and nothing was committed; land in a folder that all machines mount, or "
                "in a table whose location is s3://… or another storage that all of them reach"
            )
