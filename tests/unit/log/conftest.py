"""A disk in memory, a log on it, and the pool and cache that all indexes of a broker share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk

OpenLog = Callable[..., PartitionLog]


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


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_log(disk: CrashDisk, clock: ManualClock, directory: Path) -> OpenLog:
    def open_log(**config: object) -> PartitionLog:
        storage = Storage(disk, clock)
        partition = TopicPartition("clicks", 0)
        log, _ = load_log(storage, partition, directory, LogConfig(**config))  # type: ignore[arg-type]
        return log

    return open_log


@pytest.fixture
def log(open_log: OpenLog) -> PartitionLog:
    return open_log(segment_bytes=2000, index_interval_bytes=200)
