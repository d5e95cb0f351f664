"""Offset checkpoints: one offset per partition, replaced whole."""

import errno
from pathlib import Path
from random import Random

import pytest

from headrace.log.offset_checkpoint import OffsetCheckpoint
from headrace.model.error import CorruptLog
from headrace.model.ids import TopicPartition
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault, PowerLoss

CLICKS = TopicPartition("clicks", 0)
ODD = TopicPartition("a.b_c-D-9", 11)


@pytest.fixture
def path() -> Path:
    return Path("/data/recovery-point-offset-checkpoint")


@pytest.fixture
def checkpoint(disk: CrashDisk, path: Path) -> OffsetCheckpoint:
    return OffsetCheckpoint(disk, path)


def test_a_missing_file_has_no_offsets(checkpoint: OffsetCheckpoint) -> None:
    assert checkpoint.read() == {}


def test_it_lies_on_disk_as_kafka_writes_it(
    checkpoint: OffsetCheckpoint, disk: CrashDisk, path: Path
) -> None:
    checkpoint.write({CLICKS: 1042, ODD: 0})
    assert disk.read_bytes(path) == b"0\n2\nclicks 0 1042\na.b_c-D-9 11 0\n"


def test_what_was_written_reads_back(checkpoint: OffsetCheckpoint) -> None:
    checkpoint.write({CLICKS: 1042, ODD: 0})
    assert checkpoint.read() == {CLICKS: 1042, ODD: 0}


def test_nothing_written_reads_back(checkpoint: OffsetCheckpoint) -> None:
    checkpoint.write({})
    assert checkpoint.read() == {}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\x00" * 20, 1),
        (b"1\n0\n", 1),
        (b"0\nmany\n", 2),
        (b"0\n-1\n", 2),
        (b"0\n2\nclicks 0 1\n", 2),
        (b"0\n1\nclicks 0 1\nclicks 1 1\n", 2),
        (b"0\n1\nclicks 0\n", 3),
        (b"0\n2\nclicks 0 1\nclicks one 1\n", 4),
        (b"0\n1\nclicks 0 -7\n", 3),
        (b"0\n1\nnot/a/topic 0 7\n", 3),
    ],
)
def test_garbage_is_named_with_its_line(
    checkpoint: OffsetCheckpoint, disk: CrashDisk, path: Path, content: bytes, line: int
) -> None:
    disk.write_atomically(path, content)
    with pytest.raises(CorruptLog, match=f"corrupt in line {line}"):
        checkpoint.read()


def test_bytes_that_are_no_text_are_named(
    checkpoint: OffsetCheckpoint, disk: CrashDisk, path: Path
) -> None:
    disk.write_atomically(path, b"0\n1\n\xff 0 1\n")
    with pytest.raises(CorruptLog, match="byte 4"):
        checkpoint.read()


@pytest.mark.parametrize("mutation", range(1, 7))
@pytest.mark.parametrize("error", [errno.ENOSPC, None])
def test_a_failed_or_crashed_write_leaves_the_old_or_the_new(
    checkpoint: OffsetCheckpoint, disk: CrashDisk, mutation: int, error: int | None
) -> None:
    checkpoint.write({CLICKS: 1})
    fault = disk.inject(Fault.at_mutation(disk.mutations + mutation, error))
    with pytest.raises((OSError, PowerLoss)):
        checkpoint.write({CLICKS: 2})
    assert fault.times == 0
    for seed in range(20):
        crashed = disk.fork()
        crashed.crash(Random(seed))
        left = OffsetCheckpoint(crashed, checkpoint.path).read()
        assert left in ({CLICKS: 1}, {CLICKS: 2})


def test_a_finished_write_survives_any_crash(checkpoint: OffsetCheckpoint, disk: CrashDisk) -> None:
    checkpoint.write({CLICKS: 1})
    for seed in range(50):
        crashed = disk.fork()
        crashed.crash(Random(seed))
        assert OffsetCheckpoint(crashed, checkpoint.path).read() == {CLICKS: 1}
