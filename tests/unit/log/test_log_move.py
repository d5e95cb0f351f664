"""A log that moves between two directories, one of which refuses: what a start makes of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cluster.topic import random_topic_id
from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import LogMove, settle_half_moves
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import StorageError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)


class Pair:
    """Two log directories; the log is made in the first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.a, self.b = self.open("a"), self.open("b")
        self.log = self.a.create(CLICKS, random_topic_id())
        self.append(10)

    def open(self, name: str) -> LogDirectory:
        return LogDirectory.open(
            self.root / name,
            cluster_id="c",
            configs=lambda topic: LogConfig(file_delete_delay_ms=0),
            background=False,
        )

    def restart(self) -> None:
        for directory in (self.a, self.b):
            directory.close()
        self.a, self.b = self.open("a"), self.open("b")
        settle_half_moves([self.a, self.b])

    def append(self, count: int) -> None:
        for _ in range(count):
            self.log.append(sample_batch(b"x" * 100), 0)
        self.log.set_high_watermark(self.log.log_end_offset)

    def move(self, source: LogDirectory, target: LogDirectory) -> bool:
        move = LogMove(source, target, self.log)
        move.begin()
        while move.copy(1 << 20):
            pass
        return move.exchange()

    def names(self, name: str) -> list[str]:
        return sorted(each.name for each in (self.root / name).glob("clicks-0*"))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def refuse(*_: object, **__: object) -> None:
    raise StorageError("the disk fails")


def delete_records(log: PartitionLog) -> None:
    log.delete_records(-1)


def start_over(log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(log.log_end_offset)


@pytest.mark.parametrize("empty", [delete_records, start_over])
def test_a_log_that_was_emptied_goes_on_though_an_older_one_has_records(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, empty: Callable[[PartitionLog], None]
) -> None:
    """Its former directory failed when the log left it, and is back."""
    monkeypatch.setattr(pair.a, "hand_over", refuse)
    assert pair.move(pair.a, pair.b)
    pair.append(90)
    empty(pair.log)
    pair.a._logs.clear()  # it is not closed twice

    pair.restart()

    assert CLICKS not in pair.a
    log = pair.b.get(CLICKS)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    (kept,) = pair.names("a")
    assert kept.endswith("-stray"), "its records are in no other log"


def test_what_the_log_that_goes_on_has_as_well_is_deleted(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair.a, "hand_over", refuse)
    assert pair.move(pair.a, pair.b)
    pair.append(1)
    pair.a._logs.clear()

    pair.restart()

    assert pair.b.get(CLICKS).log_end_offset == 11
    (left,) = pair.names("a")
    assert left.endswith("-delete")
