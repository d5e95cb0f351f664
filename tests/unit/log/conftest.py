"""A disk in memory, and the pool and cache that all indexes of a broker share."""

from pathlib import Path

import pytest

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.testing.crash_disk import CrashDisk


@pytest.fixture
def directory() -> Path:
    return Path("/data/clicks-0")


@pytest.fixture
def disk(directory: Path) -> CrashDisk:
    disk = CrashDisk()
    disk.make_directory(directory)
    disk.sync_all()
    return disk


@pytest.fixture
def pool(disk: CrashDisk) -> FilePool:
    return FilePool(disk, capacity=8)


@pytest.fixture
def cache() -> IndexCache:
    return IndexCache()
