"""The crash disk keeps the rules of `headrace.log.filesystem`, and breaks everything else."""

import errno
import io
from pathlib import Path
from random import Random

import pytest

from headrace.log.filesystem import Disk, FileSystem
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import SECTOR_BYTES, Loss
from testkit.fault.disk_fault import Fault, PowerLoss

DATA = Path("/data")
PATH = DATA / "0.log"
SEEDS = range(200)


@pytest.fixture
def disk() -> CrashDisk:
    disk = CrashDisk()
    disk.make_directory(DATA)
    disk.sync_all()
    return disk


def outcomes(disk: CrashDisk, path: Path = PATH, **how: object) -> set[bytes | None]:
    """What is left at `path` after many crashes of the same history; None when it is gone."""
    left: set[bytes | None] = set()
    for seed in SEEDS:
        crashed = disk.fork()
        crashed.crash(Random(seed), **how)  # type: ignore[arg-type]
        left.add(crashed.read_bytes(path) if crashed.exists(path) else None)
    return left


# -- as a file system


@pytest.fixture(params=["memory", "disk"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, Path]:
    """The same behaviour is asked of the real disk and of the one in memory."""
    if request.param == "disk":
        return Disk(), tmp_path
    disk = CrashDisk()
    disk.make_directory(DATA)
    return disk, DATA


def test_bytes_are_read_where_they_were_written(both: tuple[FileSystem, Path]) -> None:
    filesystem, root = both
    file = filesystem.open(root / "a", create=True)
    assert file.pwritev([b"ab", bytearray(b"cd"), memoryview(b"ef")], 3) == 6
    assert file.size() == filesystem.size(root / "a") == 9
    assert file.pread(100, 0) == b"\0\0\0abcdef"
    assert file.pread(2, 4) == b"bc"
    assert file.pread(2, 50) == b""


def test_a_truncated_file_ends_there_and_grows_with_zeros(both: tuple[FileSystem, Path]) -> None:
    filesystem, root = both
    file = filesystem.open(root / "a", create=True)
    file.pwritev([b"abcdef"], 0)
    file.truncate(2)
    file.truncate(4)
    assert filesystem.read_bytes(root / "a") == b"ab\0\0"


def test_a_renamed_file_replaces_its_target(both: tuple[FileSystem, Path]) -> None:
    filesystem, root = both
    filesystem.write_atomically(root / "a", b"new")
    filesystem.write_atomically(root / "b", b"old")
    filesystem.replace(root / "a", root / "b")
    assert filesystem.list(root) == ["b"]
    assert filesystem.read_bytes(root / "b") == b"new"


def test_an_open_file_outlives_its_name(both: tuple[FileSystem, Path]) -> None:
    filesystem, root = both
    filesystem.write_atomically(root / "a", b"here")
    file = filesystem.open(root / "a", read_only=True)
    filesystem.remove(root / "a")
    assert not filesystem.exists(root / "a")
    assert file.pread(4, 0) == b"here"


def test_trees_are_made_and_removed(both: tuple[FileSystem, Path]) -> None:
    filesystem, root = both
    filesystem.make_directory(root / "x" / "y")
    filesystem.make_directory(root / "x" / "y")
    filesystem.write_atomically(root / "x" / "y" / "a", b"1")
    filesystem.replace(root / "x", root / "z")
    assert filesystem.list(root / "z" / "y") == ["a"]
    filesystem.remove_tree(root / "z")
    assert filesystem.list(root) == []


def test_what_is_missing_is_not_found(both: tuple[FileSystem, Path]) -> None:
    filesystem, root = both
    for call in (filesystem.open, filesystem.read_bytes, filesystem.remove, filesystem.size):
        with pytest.raises(FileNotFoundError):
            call(root / "missing")
    for call in (filesystem.list, filesystem.sync_directory, filesystem.remove_tree):
        with pytest.raises(FileNotFoundError):
            call(root / "missing")
    with pytest.raises(FileNotFoundError):
        filesystem.replace(root / "missing", root / "other")
    with pytest.raises(FileNotFoundError):
        filesystem.open(root / "missing" / "file", create=True)


def test_a_read_only_file_cannot_be_written(both: tuple[FileSystem, Path]) -> None:
    filesystem, root = both
    filesystem.write_atomically(root / "a", b"here")
    file = filesystem.open(root / "a", read_only=True)
    with pytest.raises(OSError, match=f"Errno {errno.EBADF}"):
        file.pwritev([b"x"], 0)


def test_there_is_no_descriptor(disk: CrashDisk) -> None:
    with pytest.raises(io.UnsupportedOperation, match="no descriptor"):
        disk.open(PATH, create=True).fileno()


# -- what a crash leaves of bytes


def test_synced_bytes_and_names_survive_every_crash(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    file.pwritev([b"precious"], 0)
    file.sync()
    disk.sync_directory(DATA)
    assert outcomes(disk) == {b"precious"}


def test_unsynced_writes_survive_in_order_torn_at_any_byte(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    disk.sync_directory(DATA)
    file.pwritev([b"ab"], 0)
    file.pwritev([b"cd"], 2)
    left = {(content or b"").rstrip(b"\0") for content in outcomes(disk, loss=Loss.TORN)}
    assert left == {b"", b"a", b"ab", b"abc", b"abcd"}


def test_the_length_may_be_ahead_of_the_bytes(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    disk.sync_directory(DATA)
    file.pwritev([b"abcd"], 0)
    assert b"ab\0\0" in outcomes(disk, loss=Loss.TORN)


def test_sectors_survive_in_any_subset(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    disk.sync_directory(DATA)
    file.pwritev([b"a" * SECTOR_BYTES + b"b" * SECTOR_BYTES], 0)
    left = outcomes(disk, loss=Loss.SECTORS)
    assert b"\0" * SECTOR_BYTES + b"b" * SECTOR_BYTES in left
    assert b"a" * SECTOR_BYTES + b"b" * SECTOR_BYTES in left
    assert b"" in left


def test_sectors_are_cut_where_the_disk_has_them(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    file.pwritev([b"x" * 10], 0)
    file.sync()
    disk.sync_directory(DATA)
    file.pwritev([b"y" * SECTOR_BYTES], 10)
    lengths = {len(content or b"") for content in outcomes(disk, loss=Loss.SECTORS)}
    assert {10, SECTOR_BYTES, SECTOR_BYTES + 10} <= lengths


def test_an_overwrite_leaves_old_and_new_bytes_mixed(disk: CrashDisk) -> None:
    disk.write_atomically(PATH, b"old!")
    disk.open(PATH).pwritev([b"NEW!"], 0)
    assert {b"old!", b"Nld!", b"NEd!", b"NEW!"} == outcomes(disk, loss=Loss.TORN)


def test_an_unsynced_truncation_may_be_undone(disk: CrashDisk) -> None:
    disk.write_atomically(PATH, b"long")
    disk.open(PATH).truncate(1)
    assert {b"l", b"long"} == outcomes(disk)


def test_everything_unsynced_may_be_kept_or_lost(disk: CrashDisk) -> None:
    disk.write_atomically(PATH, b"old")
    disk.open(PATH).pwritev([b"er"], 3)
    assert outcomes(disk, loss=Loss.NOTHING) == {b"older"}
    assert outcomes(disk, loss=Loss.EVERYTHING) == {b"old"}
    assert disk.unsynced_bytes(PATH) == 2


def test_a_crash_is_replayed_by_its_seed(disk: CrashDisk) -> None:
    for number in range(20):
        disk.open(DATA / str(number), create=True).pwritev([b"x" * 3000], 0)
    twin = disk.fork()
    disk.crash(Random(3))
    twin.crash(Random(3))
    assert disk.list(DATA) == twin.list(DATA)
    for name in disk.list(DATA):
        assert disk.read_bytes(DATA / name) == twin.read_bytes(DATA / name)


# -- what a crash leaves of names


def test_a_synced_file_without_a_synced_name_may_be_lost(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    file.pwritev([b"data"], 0)
    file.sync()
    assert outcomes(disk) == {None, b"data"}


def test_a_rename_happens_or_not(disk: CrashDisk) -> None:
    disk.write_atomically(DATA / "a", b"new")
    disk.write_atomically(DATA / "b", b"old")
    disk.replace(DATA / "a", DATA / "b")
    assert outcomes(disk, DATA / "b") == {b"old", b"new"}
    for seed in SEEDS:
        crashed = disk.fork()
        crashed.crash(Random(seed))
        assert crashed.list(DATA) == (
            ["b"] if crashed.read_bytes(DATA / "b") == b"new" else ["a", "b"]
        )


def test_an_unsynced_removal_may_be_undone(disk: CrashDisk) -> None:
    disk.write_atomically(PATH, b"data")
    disk.remove(PATH)
    assert outcomes(disk) == {None, b"data"}


def test_a_journal_keeps_the_order_of_names_and_chaos_does_not(disk: CrashDisk) -> None:
    for name in "abc":
        disk.open(DATA / name, create=True)

    def names(*, chaos: bool) -> set[str]:
        left = set()
        for seed in SEEDS:
            crashed = disk.fork()
            crashed.crash(Random(seed), chaos=chaos)
            left.add("".join(crashed.list(DATA)))
        return left

    assert names(chaos=False) == {"", "a", "ab", "abc"}
    assert names(chaos=True) == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_a_tree_may_be_removed_halfway(disk: CrashDisk) -> None:
    disk.make_directory(DATA / "t")
    for name in "ab":
        disk.open(DATA / "t" / name, create=True)
    disk.sync_all()
    disk.remove_tree(DATA / "t")
    left = set()
    for seed in SEEDS:
        crashed = disk.fork()
        crashed.crash(Random(seed))
        left.add("".join(crashed.list(DATA / "t")) if crashed.exists(DATA / "t") else None)
    assert left >= {None, "", "b", "ab"}


def test_files_that_were_open_are_stale(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    disk.crash(Random(0))
    with pytest.raises(OSError, match="crashed") as raised:
        file.pwritev([b"late"], 0)
    assert raised.value.errno == errno.ESTALE


# -- failing calls


def test_the_nth_call_fails(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    disk.inject(Fault.at_call(disk.calls + 2, errno.EIO))
    file.pwritev([b"a"], 0)
    with pytest.raises(OSError, match="Input/output error"):
        file.pwritev([b"b"], 1)
    file.pwritev([b"c"], 1)
    assert disk.read_bytes(PATH) == b"ac"


def test_calls_that_match_fail_as_often_as_asked(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    fault = disk.inject(Fault(errno.EIO, lambda call: call.name == "sync", times=None))
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
    disk.faults.remove(fault)
    file.sync()
    assert disk.sync_count == 1


def test_a_full_disk_takes_part_of_a_write(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=3))
    with pytest.raises(OSError, match="No space left"):
        file.pwritev([b"abcdef"], 0)
    assert disk.read_bytes(PATH) == b"abc"


def test_a_failed_sync_loses_what_it_should_have_written(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    disk.sync_directory(DATA)
    file.pwritev([b"lost"], 0)
    disk.inject(Fault(errno.EIO, lambda call: call.name == "sync"))
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert all(content is not None and not content.strip(b"\0") for content in outcomes(disk))


def test_after_a_power_loss_nothing_works_until_the_restart(disk: CrashDisk) -> None:
    file = disk.open(PATH, create=True)
    disk.inject(Fault.at_mutation(disk.mutations + 1))
    with pytest.raises(PowerLoss):
        file.pwritev([b"a"], 0)
    with pytest.raises(PowerLoss):
        disk.exists(PATH)
    disk.crash(Random(0))
    assert disk.exists(DATA)


def test_reading_is_no_mutation(disk: CrashDisk) -> None:
    disk.write_atomically(PATH, b"data")
    mutations = disk.mutations
    disk.open(PATH).pread(4, 0)
    disk.list(DATA)
    assert disk.mutations == mutations


def test_thousands_of_histories_take_seconds(disk: CrashDisk) -> None:
    rng = Random(1)
    for _ in range(2000):
        file = disk.open(PATH, create=True)
        for _ in range(5):
            file.pwritev([b"x" * 200], file.size())
        file.sync()
        disk.sync_directory(DATA)
        disk.crash(rng)
        disk.open(PATH).truncate(0)
    assert disk.generation == 2000
