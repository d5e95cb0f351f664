"""Leader epochs: who wrote what, and where each epoch ends."""

import errno
from pathlib import Path

import pytest

from headrace.log.partition.leader_epochs import LeaderEpochs
from headrace.model.error import CorruptLog, InvalidArgument
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault

UNKNOWN = (-1, -1)


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "leader-epoch-checkpoint"


@pytest.fixture
def epochs(disk: CrashDisk, path: Path) -> LeaderEpochs:
    epochs = LeaderEpochs(disk, path)
    epochs.assign(1, 0)
    epochs.assign(3, 40)
    return epochs


def test_it_lies_on_disk_as_kafka_writes_it(
    epochs: LeaderEpochs, disk: CrashDisk, path: Path
) -> None:
    assert disk.read_bytes(path) == b"0\n2\n1 0\n3 40\n"


def test_what_was_assigned_reads_back(epochs: LeaderEpochs, disk: CrashDisk, path: Path) -> None:
    assert LeaderEpochs(disk, path).entries == epochs.entries == ((1, 0), (3, 40))


def test_opening_reads_nothing(disk: CrashDisk, path: Path) -> None:
    calls = disk.calls
    LeaderEpochs(disk, path)
    assert disk.calls == calls


def test_without_a_file_nothing_is_known(disk: CrashDisk, path: Path) -> None:
    epochs = LeaderEpochs(disk, path)
    assert epochs.latest_epoch == -1
    assert epochs.epoch_at(0) == -1
    assert epochs.end_offset(0, 10) == UNKNOWN


def test_the_latest_epoch_is_the_newest(epochs: LeaderEpochs) -> None:
    assert epochs.latest_epoch == 3


def test_an_epoch_that_is_known_costs_no_write(epochs: LeaderEpochs, disk: CrashDisk) -> None:
    calls = disk.calls
    epochs.assign(3, 75)
    assert disk.calls == calls
    assert epochs.entries == ((1, 0), (3, 40))


@pytest.mark.parametrize("start", [40, 75])
def test_an_epoch_that_the_file_knows_costs_no_write(
    epochs: LeaderEpochs, disk: CrashDisk, path: Path, start: int
) -> None:
    again = LeaderEpochs(disk, path)
    assert again.latest_epoch == 3
    calls = disk.calls

    again.assign(3, start)

    assert disk.calls == calls
    assert again.entries == ((1, 0), (3, 40))


def test_the_newest_of_many_epochs_is_the_one_that_counts(epochs: LeaderEpochs) -> None:
    epochs.assign(7, 90)
    epochs.assign(7, 60)
    assert epochs.entries == ((1, 0), (3, 40), (7, 60))
    epochs.assign(7, 95)
    assert epochs.entries == ((1, 0), (3, 40), (7, 60))
    assert epochs.latest_epoch == epochs.known_epoch == 7
    assert epochs.end_offset(5, 100) == (3, 60)
    assert epochs.end_offset(7, 100) == (7, 100)
    assert epochs.end_offset(8, 100) == UNKNOWN


@pytest.mark.parametrize(
    ("epoch", "start", "entries"),
    [
        (4, 90, ((1, 0), (3, 40), (4, 90))),
        (4, 40, ((1, 0), (4, 40))),
        (4, 20, ((1, 0), (4, 20))),
        (3, 20, ((1, 0), (3, 20))),
        (2, 60, ((1, 0), (2, 60))),
        (4, 0, ((4, 0),)),
    ],
)
def test_a_new_entry_replaces_those_it_contradicts(
    epochs: LeaderEpochs, epoch: int, start: int, entries: tuple[tuple[int, int], ...]
) -> None:
    epochs.assign(epoch, start)
    assert epochs.entries == entries


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (4, -1)])
def test_what_cannot_be_an_epoch_is_refused(epochs: LeaderEpochs, epoch: int, start: int) -> None:
    with pytest.raises(InvalidArgument, match="at least 0"):
        epochs.assign(epoch, start)


def test_epoch_zero_may_start_at_offset_zero(disk: CrashDisk, path: Path) -> None:
    epochs = LeaderEpochs(disk, path)
    epochs.assign(0, 0)
    assert epochs.entries == ((0, 0),)
    assert epochs.end_offset(0, 5) == (0, 5)


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        (0, (0, 0)),
        (1, (1, 40)),
        (2, (1, 40)),
        (3, (3, 90)),
        (4, UNKNOWN),
        (-1, UNKNOWN),
    ],
)
def test_the_end_offset_is_that_of_the_greatest_epoch_up_to_the_requested(
    epochs: LeaderEpochs, requested: int, answer: tuple[int, int]
) -> None:
    assert epochs.end_offset(requested, 90) == answer


@pytest.mark.parametrize(("offset", "epoch"), [(0, 1), (39, 1), (40, 3), (1000, 3), (-5, -1)])
def test_every_offset_has_the_epoch_that_wrote_it(
    epochs: LeaderEpochs, offset: int, epoch: int
) -> None:
    assert epochs.epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("end", "entries"), [(41, ((1, 0), (3, 40))), (40, ((1, 0),)), (1, ((1, 0),)), (0, ())]
)
def test_truncation_from_the_end_drops_epochs_that_wrote_nothing_any_more(
    epochs: LeaderEpochs,
    disk: CrashDisk,
    path: Path,
    end: int,
    entries: tuple[tuple[int, int], ...],
) -> None:
    epochs.truncate_from_end(end)
    assert epochs.entries == LeaderEpochs(disk, path).entries == entries


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (0, ((1, 0), (3, 40))),
        (7, ((1, 0), (3, 40))),
        (40, ((1, 0), (3, 40))),
        (41, ((3, 40),)),
        (50, ((3, 40),)),
    ],
)
def test_truncation_from_the_start_keeps_the_epoch_of_the_last_record_below(
    epochs: LeaderEpochs,
    disk: CrashDisk,
    path: Path,
    start: int,
    entries: tuple[tuple[int, int], ...],
) -> None:
    epochs.truncate_from_start(start)
    assert epochs.entries == LeaderEpochs(disk, path).entries == entries


def test_a_truncation_that_drops_nothing_costs_no_write(
    epochs: LeaderEpochs, disk: CrashDisk
) -> None:
    assert epochs.entries == ((1, 0), (3, 40))
    calls = disk.calls

    epochs.truncate_from_end(41)
    epochs.truncate_from_start(40)
    epochs.truncate_from_start(3)

    assert disk.calls == calls
    assert epochs.entries == ((1, 0), (3, 40))


def test_after_a_move_they_are_written_to_the_new_place(
    epochs: LeaderEpochs, disk: CrashDisk, path: Path
) -> None:
    there = path.with_name("elsewhere")
    epochs.move(disk, there)
    epochs.assign(5, 80)
    assert LeaderEpochs(disk, there).latest_epoch == 5
    assert LeaderEpochs(disk, path).latest_epoch == 3


def test_clearing_forgets_all(epochs: LeaderEpochs, disk: CrashDisk, path: Path) -> None:
    epochs.clear()
    assert LeaderEpochs(disk, path).latest_epoch == epochs.latest_epoch == -1


def test_a_later_line_wins_over_those_it_contradicts(disk: CrashDisk, path: Path) -> None:
    disk.write_atomically(path, b"0\n3\n1 0\n5 10\n3 7\n")
    assert LeaderEpochs(disk, path).entries == ((1, 0), (3, 7))


def test_garbage_is_named_with_its_line(disk: CrashDisk, path: Path) -> None:
    disk.write_atomically(path, b"0\n1\n5 ten\n")
    with pytest.raises(CorruptLog, match="line 3: 'ten' is not a number"):
        _ = LeaderEpochs(disk, path).entries


# -- written later ---------------------------------------------------------------------------------


def test_nothing_is_written_before_a_flush_and_nothing_twice(disk: CrashDisk, path: Path) -> None:
    epochs = LeaderEpochs(disk, path, write_through=False, new=True)
    calls = disk.calls
    epochs.flush()
    epochs.assign(1, 0)
    assert disk.calls == calls

    epochs.flush()
    assert LeaderEpochs(disk, path).entries == ((1, 0),)

    calls = disk.calls
    epochs.flush()
    assert disk.calls == calls


def test_a_flush_that_failed_is_tried_again(disk: CrashDisk, path: Path) -> None:
    epochs = LeaderEpochs(disk, path, write_through=False, new=True)
    epochs.assign(1, 0)
    disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev"))
    with pytest.raises(OSError, match="space"):
        epochs.flush()

    epochs.flush()

    assert LeaderEpochs(disk, path).entries == ((1, 0),)


def test_the_known_epoch_follows_every_change(disk: CrashDisk, path: Path) -> None:
    epochs = LeaderEpochs(disk, path, new=True)
    assert epochs.known_epoch == -1
    epochs.assign(1, 0)
    epochs.assign(3, 40)
    assert epochs.known_epoch == 3
    epochs.truncate_from_end(40)
    assert epochs.known_epoch == 1
    epochs.clear()
    assert epochs.known_epoch == -1
