"""A log that moves between two directories, one of which refuses: what a start makes of it."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cluster.topic import random_topic_id
from headrace.log.departed_logs import DepartedLogs
from headrace.log.filesystem import Disk
from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import LogMove, settle_half_moves
from headrace.log.partition.log_state import LogState
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


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "no room")


def test_what_a_full_disk_kept_is_renamed_later(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(DepartedLogs, "rename", no_room)
        assert pair.move(pair.a, pair.b)
        pair.a.remove_deleted()
        assert pair.names("a") == ["clicks-0"]

    pair.a.maintain()

    assert pair.names("a") == []
    assert pair.a.offline is None


@pytest.mark.parametrize("retried", [False, True])
def test_a_log_moves_back_to_where_something_has_its_name(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, retried: bool
) -> None:
    with monkeypatch.context() as full:
        full.setattr(DepartedLogs, "rename", no_room)
        pair.move(pair.a, pair.b)
    if retried:
        pair.a.maintain()

    assert pair.move(pair.b, pair.a)
    pair.a.maintain()

    assert pair.a.offline is None
    assert pair.a.get(CLICKS) is pair.log
    assert pair.names("a") == ["clicks-0"], "the new one, and it stays"
    pair.append(1)
    pair.restart()
    assert pair.a.get(CLICKS).log_end_offset == 11


def do_nothing(pair: Pair) -> None:
    pass


def maintain(pair: Pair) -> None:
    pair.a.maintain()


def move_back(pair: Pair) -> None:
    assert pair.move(pair.b, pair.a)


def create_anew(pair: Pair) -> None:
    pair.a.create(CLICKS, random_topic_id())


@pytest.mark.parametrize(
    ("then", "clean"),
    [(do_nothing, False), (maintain, True), (move_back, True), (create_anew, True)],
)
def test_a_directory_is_clean_once_nothing_of_a_log_that_left_has_its_name(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, then: Callable[[Pair], None], clean: bool
) -> None:
    with monkeypatch.context() as full:
        full.setattr(Disk, "replace", refuse_to_replace(pair.root / "a" / str(CLICKS)))
        assert pair.move(pair.a, pair.b)
    assert pair.names("a") == ["clicks-0"]

    then(pair)
    pair.a.close()

    assert (pair.root / "a" / ".kafka_cleanshutdown").exists() is clean


def refuse_to_replace(path: Path) -> Callable[[Disk, Path, Path], None]:
    real = Disk.replace

    def replace(disk: Disk, source: Path, target: Path) -> None:
        if source == path:
            no_room()
        real(disk, source, target)

    return replace


def test_a_new_log_gets_the_name_of_what_a_full_disk_kept(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(DepartedLogs, "rename", no_room)
        pair.move(pair.a, pair.b)

    new = pair.a.create(CLICKS, random_topic_id())
    pair.a.maintain()

    assert new.log_end_offset == 0
    assert pair.names("a") == ["clicks-0"]


def test_a_directory_that_was_left_there_makes_way(pair: Pair) -> None:
    left = pair.root / "b" / "clicks-0"
    left.mkdir()
    (left / "00000000000000000000.log").write_bytes(b"someone's")

    assert pair.move(pair.a, pair.b)

    assert pair.b.offline is None
    assert [name.rpartition("-")[2] for name in pair.names("b")] == ["0", "stray"]


def test_a_cancelled_move_leaves_no_offsets(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is made there later, and a start, must not find them."""
    other = pair.b.create(TopicPartition("views", 0), random_topic_id())
    other.append(sample_batch(b"x"), 0)
    pair.log.sync()
    pair.log.delete_records(5)
    move = LogMove(pair.a, pair.b, pair.log)
    move.begin()
    with monkeypatch.context() as patched:
        patched.setattr(LogState, "move", refuse)
        with pytest.raises(StorageError):
            move.exchange()
    move.cancel()

    for path in (pair.root / "b").glob("*-checkpoint"):
        assert b"clicks" not in path.read_bytes()
    assert pair.names("b") == []


def test_a_copy_that_could_not_get_its_former_name_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange fails, and the disk has no room for the name: the next try goes on there."""
    move = LogMove(pair.a, pair.b, pair.log)
    move.begin()
    replace = Disk.replace

    def replace_once(disk: Disk, source: Path, target: Path) -> None:
        if target.name.endswith("-future"):
            no_room()
        replace(disk, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(LogState, "move", refuse)
        patched.setattr(Disk, "replace", replace_once)
        with pytest.raises(StorageError):
            move.exchange()

    assert move.exchange()
    assert pair.b.offline is None
    assert pair.b.get(CLICKS) is pair.log
