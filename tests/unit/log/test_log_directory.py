"""A directory of logs: its lock, its checkpoints, its partitions, its end."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from headrace.log.clean_mark import CLEAN_SHUTDOWN_NAME
from headrace.log.log_directory import LogDirectory
from headrace.log.offset_checkpoint import RECOVERY_POINT_NAME
from headrace.model.clock import ManualClock
from headrace.model.error import (
    InvalidArgument,
    LogClosed,
    LogDirectoryLocked,
    LogDirectoryOffline,
    StorageError,
)
from headrace.model.ids import TopicId, TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import sample_batch

DATA = Path("/var/data")
CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("page-views", 3)
Open = Callable[..., LogDirectory]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_directory(clock: ManualClock) -> Open:
    disk = CrashDisk()

    def open_directory(**how: object) -> LogDirectory:
        how = {
            "filesystem": disk,
            "clock": clock,
            "background": False,
            "configs": lambda topic: LogConfig(segment_bytes=1024, retention_ms=1000),
            **how,
        }
        return LogDirectory.open(DATA, **how)  # type: ignore[arg-type]

    return open_directory


def disk_of(directory: LogDirectory) -> CrashDisk:
    filesystem = directory.storage.filesystem
    assert isinstance(filesystem, CrashDisk)
    return filesystem


def fill(directory: LogDirectory, partition: TopicPartition, count: int) -> None:
    log = directory.create(partition)
    for _ in range(count):
        log.append(sample_batch(b"value" * 10), 0)
    log.set_high_watermark(log.log_end_offset)


def test_partitions_are_there_again_after_a_clean_stop(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 5)
    fill(directory, VIEWS, 7)
    directory.close()

    directory = open_directory()

    assert directory.partitions == [CLICKS, VIEWS]
    assert directory.get(VIEWS).log_end_offset == 7
    assert directory.get(VIEWS).high_watermark == 7
    assert directory.recovered == {}


def test_a_clean_stop_is_marked_and_the_mark_goes_with_the_next_start(open_directory: Open) -> None:
    directory = open_directory()
    disk = disk_of(directory)
    directory.close()
    assert json.loads(disk.read_bytes(DATA / CLEAN_SHUTDOWN_NAME))["version"] == 0

    open_directory()

    assert not disk.exists(DATA / CLEAN_SHUTDOWN_NAME)


def test_a_clean_start_opens_no_log(open_directory: Open) -> None:
    directory = open_directory()
    for number in range(20):
        fill(directory, TopicPartition("t", number), 3)
    disk = disk_of(directory)
    directory.close()
    before = disk.calls

    directory = open_directory()

    assert disk.calls - before < 20
    assert directory.open_logs() == []


def test_a_crash_before_a_log_was_used_again_costs_nothing(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 50)
    disk = disk_of(directory)
    directory.close()
    open_directory()
    disk.crash(Random(1))

    directory = open_directory()

    assert directory.get(CLICKS).log_end_offset == 50
    assert directory.recovered == {}


def test_every_log_is_recovered_after_a_crash(open_directory: Open) -> None:
    directory = open_directory()
    for number in range(10):
        partition = TopicPartition("t", number)
        fill(directory, partition, 4)
        directory.get(partition).sync()
    disk_of(directory).crash(Random(2))

    directory = open_directory(recovery_threads=3)

    assert [log.log_end_offset for log in directory.open_logs()] == [4] * 10
    assert all(each.scanned_bytes for each in directory.recovered.values())


def test_log_start_and_recovery_point_survive(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 30)
    directory.get(CLICKS).delete_records(25)
    directory.get(CLICKS).flush()
    directory.checkpoint()
    disk_of(directory).crash(Random(2))

    log = open_directory().get(CLICKS)

    assert log.log_start_offset == 25
    assert log.recovery_point == 30


def test_the_topic_id_is_kept(open_directory: Open) -> None:
    directory = open_directory()
    topic_id = TopicId(uuid4())
    directory.create(CLICKS, topic_id)
    directory.create(VIEWS)
    assert directory.topic_id(CLICKS) == topic_id
    assert directory.topic_id(VIEWS) is None


def test_creating_what_is_there_gives_what_is_there(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 3)
    assert directory.create(CLICKS) is directory.get(CLICKS)


@pytest.mark.parametrize("partition", [TopicPartition("../x", 0), TopicPartition("x", -1)])
def test_a_name_that_cannot_be_is_refused(open_directory: Open, partition: TopicPartition) -> None:
    with pytest.raises(InvalidArgument):
        open_directory().create(partition)


def test_a_log_that_is_not_there_is_refused(open_directory: Open) -> None:
    with pytest.raises(InvalidArgument, match="no log"):
        open_directory().get(CLICKS)


def test_a_deleted_partition_is_gone_and_its_files_follow(
    open_directory: Open, clock: ManualClock
) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 3)
    log = directory.get(CLICKS)

    directory.delete(CLICKS)

    assert CLICKS not in directory
    with pytest.raises(LogClosed):
        log.append(sample_batch(b"a"), 0)
    with pytest.raises(LogClosed):
        log.read(0, 100)
    assert directory.offline is None
    assert any(name.endswith("-delete") for name in disk_of(directory).list(DATA))
    clock.advance(60_000)
    assert directory.remove_deleted() == 1
    assert not any(name.endswith("-delete") for name in disk_of(directory).list(DATA))


def test_a_partition_of_the_same_name_starts_at_zero(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 30)
    directory.get(CLICKS).delete_records(20)
    directory.get(CLICKS).flush()
    directory.checkpoint()
    directory.delete(CLICKS)

    assert directory.create(CLICKS).log_end_offset == 0
    disk_of(directory).crash(Random(5))
    assert open_directory().get(CLICKS).log_start_offset == 0


def test_a_partition_of_the_same_name_has_no_high_watermark_of_the_one_before(
    open_directory: Open,
) -> None:
    directory = open_directory()
    log = directory.create(CLICKS)
    log.append(sample_batch(b"a", b"b", b"c"), 0)
    log.set_high_watermark(3)
    directory.checkpoint()
    directory.delete(CLICKS)
    directory.create(CLICKS).append(sample_batch(b"x", b"y"), 0)

    # Killed, with all that was written: no replica in sync has confirmed x and y.
    again = open_directory()

    assert again.get(CLICKS).log_end_offset == 2
    assert again.get(CLICKS).high_watermark == 0


def test_a_partition_deleted_on_a_full_disk_leaves_nothing_to_one_of_the_same_name(
    open_directory: Open,
) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 30)
    directory.get(CLICKS).flush()
    directory.checkpoint()
    full = Fault(errno.ENOSPC, lambda call: call.name in ("pwritev", "create"), times=None)
    disk_of(directory).inject(full)
    directory.delete(CLICKS)
    disk_of(directory).faults.remove(full)
    directory.create(CLICKS).append(sample_batch(b"x"), 0)

    # Killed, with all that was written.
    again = open_directory()

    assert again.get(CLICKS).log_end_offset == 1


def test_what_a_crash_left_of_a_deletion_goes_at_the_next_start(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 3)
    directory.delete(CLICKS)
    disk_of(directory).crash(Random(1))

    directory = open_directory()

    assert directory.partitions == []
    assert not any(name.endswith("-delete") for name in disk_of(directory).list(DATA))


def test_upkeep_applies_retention_to_logs_that_were_not_used(
    open_directory: Open, clock: ManualClock
) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 40)
    directory.close()
    directory = open_directory()
    clock.advance(5000)

    directory.maintain()

    assert directory.get(CLICKS).log_start_offset == 40


def test_upkeep_flushes_rolled_segments(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 40)
    directory.maintain()
    log = directory.get(CLICKS)
    assert log.recovery_point >= log.segments[-1].base_offset


def test_a_changed_configuration_reaches_open_logs(open_directory: Open) -> None:
    configs = {"clicks": LogConfig(), "page-views": LogConfig()}
    directory = open_directory(configs=lambda topic: configs[topic])
    log, other = directory.create(CLICKS), directory.create(VIEWS)
    configs["clicks"] = LogConfig(retention_ms=5)

    directory.configure("clicks")

    assert log.config.retention_ms == 5
    assert other.config.retention_ms != 5


def test_the_first_error_takes_all_logs_offline(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 2)
    fill(directory, VIEWS, 2)
    disk_of(directory).inject(Fault(errno.EIO, lambda call: call.name == "sync"))
    with pytest.raises(StorageError):
        directory.get(CLICKS).sync()

    with pytest.raises(LogDirectoryOffline):
        directory.get(VIEWS).append(sample_batch(b"a"), 0)
    assert directory.offline is not None
    directory.close()
    assert not disk_of(directory).exists(DATA / CLEAN_SHUTDOWN_NAME)


def test_damage_is_said_at_the_start(open_directory: Open) -> None:
    directory = open_directory()
    fill(directory, CLICKS, 3)
    directory.close()
    disk = disk_of(directory)
    disk.open(DATA / RECOVERY_POINT_NAME).pwritev([b"garbage"], 0)

    with pytest.raises(StorageError, match="recovery-point"):
        open_directory()


def test_the_directory_of_another_node_is_refused(open_directory: Open) -> None:
    open_directory(node_id=1, cluster_id="one").close()
    with pytest.raises(StorageError, match="node 1"):
        open_directory(node_id=2)
    with pytest.raises(StorageError, match="cluster one"):
        open_directory(node_id=1, cluster_id="two")
    assert open_directory(node_id=1).meta.cluster_id == "one"


def test_two_cannot_have_the_same_directory(tmp_path: Path) -> None:
    first = LogDirectory.open(tmp_path)
    with pytest.raises(LogDirectoryLocked, match="another process"):
        LogDirectory.open(tmp_path)
    first.close()
    LogDirectory.open(tmp_path).close()


def test_on_a_real_disk_rolled_segments_are_flushed_behind(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1024)
    directory = LogDirectory.open(tmp_path / "a" / "b", configs=lambda topic: config)
    fill(directory, CLICKS, 200)
    directory.close()

    directory = LogDirectory.open(tmp_path / "a" / "b", configs=lambda topic: config)

    log = directory.get(CLICKS)
    assert log.log_end_offset == log.recovery_point == 200
    assert log.read(100, 100).size > 0
    directory.close()


def test_a_path_that_cannot_be_a_directory_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be used for logs"):
        LogDirectory.open(tmp_path / "file")


@pytest.mark.parametrize("seed", range(20))
def test_a_new_log_has_its_topic_id_before_its_first_records_are_durable(
    open_directory: Open, seed: int
) -> None:
    """Creating a log waits for no disk; its first sync makes up for that."""
    directory = open_directory()
    topic_id = TopicId(uuid4())
    directory.create_all("clicks", range(3), topic_id)
    log = directory.get(CLICKS)
    log.append(sample_batch(b"value"), 0)
    log.sync()
    disk_of(directory).crash(Random(seed))

    directory = open_directory()

    assert directory.get(CLICKS).log_end_offset == 1
    assert directory.topic_id(CLICKS) == topic_id
    for other in set(directory.partitions) - {CLICKS}:
        assert directory.get(other).log_end_offset == 0
        assert directory.topic_id(other) in (topic_id, None)
