"""The offset index: entries in, the nearest one before an offset out."""

import errno
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event

import pytest

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.index_file import PENDING_ENTRIES
from headrace.log.index.offset_index import OffsetIndex
from headrace.model.error import CorruptIndex, InvalidArgument
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Fault

BASE = 1000


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "00000000000000001000.index"


@pytest.fixture
def index(path: Path, pool: FilePool, cache: IndexCache) -> OffsetIndex:
    return OffsetIndex(path, BASE, pool, cache, new=True)


@pytest.fixture
def reopen(path: Path, pool: FilePool, cache: IndexCache) -> Callable[[], OffsetIndex]:
    return lambda: OffsetIndex(path, BASE, pool, cache)


def fill(index: OffsetIndex, count: int) -> None:
    for row in range(count):
        index.append(BASE + 10 * (row + 1), 4096 * (row + 1))


def test_lookup_answers_the_last_entry_at_or_before_the_offset(index: OffsetIndex) -> None:
    fill(index, 3)
    assert index.lookup(1020) == (1020, 8192)
    assert index.lookup(1029) == (1020, 8192)
    assert index.lookup(5000) == (1030, 12288)


def test_lookup_before_the_first_entry_starts_at_the_beginning(index: OffsetIndex) -> None:
    fill(index, 3)
    assert index.lookup(1009) == (BASE, 0)


def test_an_empty_index_starts_at_the_beginning(index: OffsetIndex) -> None:
    assert index.lookup(1234) == (BASE, 0)
    assert index.last_offset == BASE


def test_entries_lie_on_disk_as_kafka_writes_them(
    index: OffsetIndex, disk: CrashDisk, path: Path
) -> None:
    fill(index, 2)
    index.flush()
    assert disk.read_bytes(path) == struct.pack(">iiii", 10, 4096, 20, 8192)


@pytest.mark.parametrize(
    ("offset", "position"), [(1010, 5000), (1005, 5000), (1020, 4096), (BASE + 2**31, 5000)]
)
def test_entries_that_do_not_grow_are_refused(
    index: OffsetIndex, offset: int, position: int
) -> None:
    index.append(1010, 4096)
    with pytest.raises(InvalidArgument, match="cannot follow"):
        index.append(offset, position)


def test_opening_a_cold_index_touches_nothing(
    index: OffsetIndex, disk: CrashDisk, reopen: Callable[[], OffsetIndex]
) -> None:
    fill(index, 3)
    index.close()
    calls = disk.calls
    reopen()
    assert disk.calls == calls


def test_a_closed_index_reads_back(index: OffsetIndex, reopen: Callable[[], OffsetIndex]) -> None:
    fill(index, PENDING_ENTRIES + 7)
    index.close()
    again = reopen()
    assert again.count == PENDING_ENTRIES + 7
    assert again.lookup(1025) == (1020, 8192)
    assert again.last_offset == BASE + 10 * (PENDING_ENTRIES + 7)


def test_a_reopened_index_goes_on(index: OffsetIndex, reopen: Callable[[], OffsetIndex]) -> None:
    fill(index, 3)
    index.close()
    again = reopen()
    again.append(1040, 20000)
    assert again.lookup(1050) == (1040, 20000)
    assert again.lookup(1015) == (1010, 4096)


def test_few_entries_cost_no_write(index: OffsetIndex, disk: CrashDisk) -> None:
    calls = disk.calls
    fill(index, PENDING_ENTRIES - 1)
    assert disk.calls == calls


def test_entries_that_lost_their_memory_are_read_again(index: OffsetIndex) -> None:
    fill(index, PENDING_ENTRIES + 3)
    index._file.unload()
    index.append(BASE + 5000, 10**6)
    assert index.lookup(1015) == (1010, 4096)
    assert index.lookup(BASE + 5000) == (BASE + 5000, 10**6)


@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize(("offset", "left"), [(1020, 1), (1021, 2), (1000, 0), (9999, 3)])
def test_truncation_drops_entries_at_and_after_the_offset(
    index: OffsetIndex,
    reopen: Callable[[], OffsetIndex],
    flushed: bool,
    offset: int,
    left: int,
) -> None:
    fill(index, 3)
    if flushed:
        index.flush()
    index.truncate_to(offset)
    assert index.count == left
    index.append(1100, 99999)
    index.close()
    assert reopen().lookup(1099) == (BASE + 10 * left, 4096 * left)
    assert reopen().lookup(1100) == (1100, 99999)


def test_it_is_full_when_no_entry_fits(index: OffsetIndex) -> None:
    fill(index, 3)
    assert index.free_entries(31) == 0
    assert index.free_entries(32) == 1


def test_a_new_index_ignores_what_a_crash_left(disk: CrashDisk, path: Path, pool: FilePool) -> None:
    disk.write_atomically(path, b"left from before")
    index = OffsetIndex(path, BASE, pool, IndexCache(), new=True)
    index.flush()
    assert disk.size(path) == 0


def test_flush_makes_entries_survive_a_crash(
    index: OffsetIndex, disk: CrashDisk, directory: Path, path: Path
) -> None:
    fill(index, 3)
    index.flush()
    disk.sync_directory(directory)
    disk.crash(Random(1), loss=Loss.EVERYTHING)
    again = OffsetIndex(path, BASE, FilePool(disk, 4), IndexCache())
    again.check()
    assert again.lookup(5000) == (1030, 12288)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x00" * 7, "not a multiple of 8"),
        (struct.pack(">iiii", 20, 4096, 10, 8192), "begins with 20 and ends with 10"),
        (struct.pack(">ii", -1, 0), "begins with -1"),
    ],
)
def test_a_file_that_cannot_be_an_index_says_so(
    disk: CrashDisk,
    path: Path,
    reopen: Callable[[], OffsetIndex],
    content: bytes,
    what: str,
) -> None:
    disk.write_atomically(path, content)
    with pytest.raises(CorruptIndex, match=what):
        reopen().lookup(1000)


def test_a_missing_file_says_so(reopen: Callable[[], OffsetIndex]) -> None:
    with pytest.raises(CorruptIndex, match="missing"):
        reopen().lookup(1000)


def test_check_finds_disorder_in_the_middle(
    disk: CrashDisk, path: Path, reopen: Callable[[], OffsetIndex]
) -> None:
    disk.write_atomically(path, struct.pack(">6i", 10, 10, 0, 20, 30, 30))
    with pytest.raises(CorruptIndex, match="key of entry 1"):
        reopen().check()


def test_a_corrupt_index_can_be_rebuilt_in_place(
    disk: CrashDisk, path: Path, reopen: Callable[[], OffsetIndex]
) -> None:
    disk.write_atomically(path, b"garbage")
    index = reopen()
    index.reset()
    fill(index, 2)
    index.close()
    assert reopen().lookup(1015) == (1010, 4096)


@pytest.mark.parametrize("written_bytes", [0, 3, 8, 20])
def test_a_failed_write_loses_no_entry(
    index: OffsetIndex,
    disk: CrashDisk,
    reopen: Callable[[], OffsetIndex],
    written_bytes: int,
) -> None:
    fill(index, 3)
    disk.inject(
        Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=written_bytes)
    )
    with pytest.raises(OSError, match="No space left"):
        index.flush()
    assert index.lookup(1020) == (1020, 8192)
    index.close()
    assert reopen().lookup(5000) == (1030, 12288)
    assert reopen().count == 3


def test_a_renamed_index_is_found_under_its_new_name(
    index: OffsetIndex, disk: CrashDisk, path: Path
) -> None:
    fill(index, 2)
    index.flush()
    index._file.unload()
    target = path.with_name(path.name + ".deleted")
    disk.replace(path, target)
    index.move(target)
    assert index.lookup(1015) == (1010, 4096)


def test_readers_in_other_threads_always_get_an_entry_that_was_there(
    path: Path, pool: FilePool
) -> None:
    """One thread appends, cuts and loses its memory; the others only ever see true entries."""
    index = OffsetIndex(path, 0, pool, IndexCache(max_bytes=64), new=True)
    writing = Event()
    writing.set()

    def read() -> bool:
        right = True
        while writing.is_set():
            offset, position = index.lookup(10**6)
            right &= position == offset * 7
        return right

    with ThreadPoolExecutor(2) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        for turn in range(40):
            start = index.last_offset
            for row in range(1, 100):
                index.append(start + row, (start + row) * 7)
            index._file.unload()
            index.truncate_to(start + 50 + turn)
        writing.clear()
        assert all(reader.result() for reader in readers)
