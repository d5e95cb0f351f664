"""The time index: only a new maximum makes an entry."""

import struct
from pathlib import Path

import pytest

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.time_index import TimeIndex
from headrace.model.error import CorruptIndex, InvalidArgument
from testkit.fault.crash_disk import CrashDisk

BASE = 500
T = 1_700_000_000_000


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "00000000000000000500.timeindex"


@pytest.fixture
def index(path: Path, pool: FilePool, cache: IndexCache) -> TimeIndex:
    index = TimeIndex(path, BASE, pool, cache, new=True)
    for row in range(1, 4):
        index.maybe_append(T + row * 100, BASE + row * 10)
    return index


def test_lookup_answers_the_last_entry_at_or_before_the_time(index: TimeIndex) -> None:
    assert index.lookup(T + 200) == (T + 200, 520)
    assert index.lookup(T + 299) == (T + 200, 520)
    assert index.lookup(T + 10**6) == (T + 300, 530)


def test_lookup_before_the_first_entry_starts_at_the_base_offset(index: TimeIndex) -> None:
    assert index.lookup(T + 99) == (-1, BASE)


def test_the_last_entry_is_the_greatest_time(index: TimeIndex) -> None:
    assert index.last_entry == (T + 300, 530)


def test_an_empty_index_has_no_time(path: Path, pool: FilePool, cache: IndexCache) -> None:
    assert TimeIndex(path, BASE, pool, cache, new=True).last_entry == (-1, BASE)


@pytest.mark.parametrize("timestamp", [T + 300, T + 299, -1])
def test_a_time_that_is_not_newer_is_skipped(index: TimeIndex, timestamp: int) -> None:
    assert index.maybe_append(timestamp, 540) is False
    assert index.count == 3


def test_a_newer_time_at_an_older_offset_is_refused(index: TimeIndex) -> None:
    with pytest.raises(InvalidArgument, match="offset 530 cannot follow 530"):
        index.maybe_append(T + 400, 530)


def test_entries_lie_on_disk_as_kafka_writes_them(
    index: TimeIndex, disk: CrashDisk, path: Path
) -> None:
    index.flush()
    expected = b"".join(struct.pack(">qi", T + row * 100, row * 10) for row in (1, 2, 3))
    assert disk.read_bytes(path) == expected


def test_a_closed_index_reads_back(
    index: TimeIndex, path: Path, pool: FilePool, cache: IndexCache
) -> None:
    index.close()
    again = TimeIndex(path, BASE, pool, cache)
    assert again.last_entry == (T + 300, 530)
    assert again.lookup(T + 150) == (T + 100, 510)
    again.check()


def test_truncation_drops_entries_at_and_after_the_offset(index: TimeIndex) -> None:
    index.truncate_to(521)
    assert index.last_entry == (T + 200, 520)
    index.truncate_to(520)
    assert index.last_entry == (T + 100, 510)
    index.truncate_to(0)
    assert index.last_entry == (-1, BASE)


def test_the_last_slot_is_kept_for_closing_the_segment(index: TimeIndex) -> None:
    assert index.free_entries(48) == 0
    assert index.free_entries(60) == 1


def test_a_half_written_entry_says_so(
    disk: CrashDisk, path: Path, pool: FilePool, cache: IndexCache
) -> None:
    disk.write_atomically(path, b"\x00" * 18)
    with pytest.raises(CorruptIndex, match="not a multiple of 12"):
        TimeIndex(path, BASE, pool, cache).lookup(T)


def test_zeros_after_the_entries_are_found(
    index: TimeIndex, disk: CrashDisk, path: Path, pool: FilePool, cache: IndexCache
) -> None:
    index.close()
    disk.write_atomically(path, disk.read_bytes(path) + bytes(12))
    with pytest.raises(CorruptIndex):
        TimeIndex(path, BASE, pool, cache).check()
