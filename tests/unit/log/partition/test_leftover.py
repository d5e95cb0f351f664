"""What a crash left in a partition's directory is finished or undone, and stays so."""

from pathlib import Path
from random import Random

import pytest

from headrace.log.partition.leftover import PartitionFiles, tidy
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import sample_batch


def name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}.{suffix}"


class Tidying:
    """A directory to put files into, as they lie there after a crash."""

    def __init__(self, disk: CrashDisk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self.storage = Storage(disk, ManualClock())

    def put(self, base_offset: int, *suffixes: str, last: int | None = None) -> None:
        """Put files of a segment there; its log reaches to the offset `last`."""
        for suffix in suffixes:
            file = self._disk.open(self._directory / name(base_offset, suffix), create=True)
            if last is not None and suffix.startswith("log"):
                span = last - base_offset + 1
                file.pwritev([sample_batch(*[b"v"] * span, base_offset=base_offset)], 0)
        self._disk.sync_all()

    def put_other(self, file_name: str) -> None:
        self._disk.open(self._directory / file_name, create=True)
        self._disk.sync_all()

    def tidy(self) -> dict[int, set[str]]:
        """Tidy the directory, and return the kinds of files of each segment."""
        return {
            base: {suffix.removeprefix(".") for suffix in suffixes}
            for base, suffixes in tidy(self.storage, self._directory).segments.items()
        }

    def names_after_a_crash(self) -> list[str]:
        """Return what is there when the power goes right after: no name that is not synced."""
        self._disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)
        return sorted(self._disk.list(self._directory))


@pytest.fixture
def tidying(disk: CrashDisk, directory: Path) -> Tidying:
    return Tidying(disk, directory)


def test_a_tidy_directory_is_only_listed(
    tidying: Tidying, disk: CrashDisk, directory: Path
) -> None:
    tidying.put(0, "log", "index", "timeindex")
    tidying.put(7, "log", "txnindex", "snapshot")
    tidying.put_other("partition.metadata")
    before = disk.sync_count

    files = tidy(tidying.storage, directory)

    assert files == PartitionFiles(
        segments={0: {".log", ".index", ".timeindex"}, 7: {".log", ".txnindex"}}, snapshots=[7]
    )
    assert disk.sync_count == before


@pytest.mark.parametrize(
    "leftover", ["log.deleted", "index.deleted", "log.cleaned", "timeindex.cleaned"]
)
def test_what_was_deleted_and_what_was_not_ready_goes_for_good(
    tidying: Tidying, leftover: str
) -> None:
    tidying.put(0, "log")
    tidying.put(0, leftover)
    tidying.put_other("leader-epoch-checkpoint.tmp")

    assert tidying.tidy() == {0: {"log"}}
    assert tidying.names_after_a_crash() == [name(0, "log")]


def test_indexes_without_their_log_go_for_good(tidying: Tidying) -> None:
    tidying.put(0, "log", "index")
    tidying.put(5, "index", "timeindex", "txnindex")

    assert tidying.tidy() == {0: {"log", "index"}}
    assert tidying.names_after_a_crash() == [name(0, "index"), name(0, "log")]


def test_an_exchange_that_was_prepared_is_finished_for_good(tidying: Tidying) -> None:
    tidying.put(0, "log", "index")
    tidying.put(5, "log", "index", last=7)
    tidying.put(8, "log")
    tidying.put(0, "log.swap", "index.swap", last=7)

    assert tidying.tidy() == {0: {"log", "index"}, 8: {"log"}}
    assert tidying.names_after_a_crash() == [name(0, "index"), name(0, "log"), name(8, "log")]


def test_the_segments_it_covers_are_those_between_its_base_and_its_end(tidying: Tidying) -> None:
    tidying.put(0, "log")
    tidying.put(5, "log")
    tidying.put(7, "log")
    tidying.put(8, "log")
    tidying.put(5, "log.swap", last=7)

    assert sorted(tidying.tidy()) == [0, 5, 8]


def test_no_file_stays_open_under_the_name_of_a_swap(tidying: Tidying, directory: Path) -> None:
    tidying.put(0, "log")
    tidying.put(0, "log.swap", last=7)
    tidying.tidy()

    with pytest.raises(FileNotFoundError):
        tidying.storage.files.get(directory / name(0, "log.swap"))


def test_a_compacted_segment_without_a_batch_covers_nothing(tidying: Tidying) -> None:
    tidying.put(0, "log")
    tidying.put(5, "log")
    tidying.put(0, "log.swap")

    assert sorted(tidying.tidy()) == [0, 5]


def test_the_rest_of_an_exchange_that_was_all_but_finished_takes_its_place(
    tidying: Tidying,
) -> None:
    tidying.put(0, "log", last=7)
    tidying.put(3, "log")
    tidying.put(0, "index.swap", "timeindex.swap")

    assert tidying.tidy() == {0: {"log", "index", "timeindex"}, 3: {"log"}}
    assert name(0, "index.swap") not in tidying.names_after_a_crash()


@pytest.mark.parametrize("base_offset", [5, 9])
def test_an_exchange_that_was_not_prepared_whole_is_undone(
    tidying: Tidying, base_offset: int
) -> None:
    tidying.put(5, "log", last=8)
    tidying.put(9, "log", last=12)
    tidying.put(5, "index.cleaned")
    tidying.put(base_offset, "log.swap", last=12)

    assert sorted(tidying.tidy()) == [5, 9]
    assert tidying.names_after_a_crash() == [name(5, "log"), name(9, "log")]


def test_an_exchange_below_another_that_was_not_ready_is_finished(tidying: Tidying) -> None:
    tidying.put(0, "log", last=3)
    tidying.put(2, "log")
    tidying.put(5, "log")
    tidying.put(5, "log.cleaned")
    tidying.put(0, "log.swap", last=3)

    assert sorted(tidying.tidy()) == [0, 5]


def test_a_deletion_undoes_no_exchange(tidying: Tidying) -> None:
    tidying.put(0, "log.deleted")
    tidying.put(5, "log")
    tidying.put(6, "log")
    tidying.put(5, "log.swap", last=7)

    assert tidying.tidy() == {5: {"log"}}


def test_covered_segments_are_gone_for_good_before_the_swap_has_its_name(
    tidying: Tidying, disk: CrashDisk
) -> None:
    tidying.put(0, "log")
    tidying.put(5, "log")
    tidying.put(0, "log.swap", last=7)
    order: list[str] = []
    disk.inject(Fault(None, lambda call: order.append(f"{call.name} {call.path.name}") is not None))

    tidying.tidy()

    changes = [each for each in order if each.split()[0] in ("remove", "sync_directory", "replace")]
    assert [each.split()[0] for each in changes] == [
        "remove",
        "sync_directory",
        "replace",
        "sync_directory",
    ]
