"""The transaction index: which aborted transactions a reader must skip."""

import struct
from collections.abc import Callable
from pathlib import Path
from threading import Lock

import pytest

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.transaction_index import AbortedTransactionEntry, TransactionIndex
from headrace.model.error import CorruptIndex, InvalidArgument
from testkit.fault.crash_disk import CrashDisk

A = AbortedTransactionEntry(producer_id=1, first_offset=0, last_offset=10, last_stable_offset=2)
B = AbortedTransactionEntry(producer_id=2, first_offset=2, last_offset=12, last_stable_offset=13)
C = AbortedTransactionEntry(producer_id=1, first_offset=20, last_offset=30, last_stable_offset=31)


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "00000000000000000000.txnindex"


@pytest.fixture
def index(path: Path, pool: FilePool, cache: IndexCache) -> TransactionIndex:
    index = TransactionIndex(path, pool, cache, new=True)
    for aborted in (A, B, C):
        index.append(aborted)
    return index


def test_no_file_is_there_before_the_first_abort(
    disk: CrashDisk, path: Path, pool: FilePool, cache: IndexCache
) -> None:
    index = TransactionIndex(path, pool, cache, new=True)
    index.flush()
    assert not disk.exists(path)
    index.append(A)
    assert disk.exists(path)


def test_a_missing_file_holds_nothing(path: Path, pool: FilePool, cache: IndexCache) -> None:
    assert TransactionIndex(path, pool, cache).collect(0, 100) == ([], False)


def test_entries_lie_on_disk_as_kafka_writes_them(
    index: TransactionIndex, disk: CrashDisk, path: Path
) -> None:
    content = disk.read_bytes(path)
    assert len(content) == 3 * 34
    assert content[:34] == struct.pack(">hqqqq", 0, 1, 0, 10, 2)


def test_a_reader_gets_the_transactions_that_overlap_its_range(index: TransactionIndex) -> None:
    assert index.collect(11, 21).aborted == [B, C]
    assert index.collect(13, 20).aborted == []


def test_the_search_is_complete_once_the_stable_offset_passed_the_range(
    index: TransactionIndex,
) -> None:
    assert index.collect(0, 2) == ([A], True)
    assert index.collect(0, 13) == ([A, B], True)
    assert index.collect(0, 14) == ([A, B], True)
    assert index.collect(0, 32) == ([A, B, C], False)


def test_markers_must_come_in_order(index: TransactionIndex) -> None:
    with pytest.raises(InvalidArgument, match="marker at 30 cannot follow the one at 30"):
        index.append(C)


@pytest.mark.parametrize(("offset", "left"), [(12, [A]), (13, [A, B]), (0, []), (99, [A, B, C])])
def test_truncation_drops_markers_at_and_after_the_offset(
    index: TransactionIndex,
    path: Path,
    pool: FilePool,
    cache: IndexCache,
    offset: int,
    left: list[AbortedTransactionEntry],
) -> None:
    index.truncate_to(offset)
    assert index.entries() == left
    assert TransactionIndex(path, pool, cache).entries() == left


def test_a_rebuilt_index_forgets_what_the_file_held(
    index: TransactionIndex, path: Path, pool: FilePool, cache: IndexCache
) -> None:
    index.reset()
    index.flush()
    assert TransactionIndex(path, pool, cache).entries() == []


def test_entries_after_a_reset_replace_the_old_ones(
    index: TransactionIndex, path: Path, pool: FilePool, cache: IndexCache
) -> None:
    index.reset()
    index.append(B)
    assert TransactionIndex(path, pool, cache).entries() == [B]


def test_entries_that_lost_their_memory_are_read_again(index: TransactionIndex) -> None:
    index.unload()
    assert index.entries() == [A, B, C]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (bytes(33), "not a multiple of 34"),
        (struct.pack(">hqqqq", 1, 1, 0, 10, 2), "unknown version 1"),
        (struct.pack(">hqqqq", 0, 1, 11, 10, 2), "entry 0"),
        (struct.pack(">hqqqq", 0, 1, 0, 10, 2) * 2, "comes after marker 10"),
    ],
)
def test_a_file_that_cannot_be_one_says_so(
    disk: CrashDisk, path: Path, pool: FilePool, cache: IndexCache, content: bytes, what: str
) -> None:
    disk.write_atomically(path, content)
    with pytest.raises(CorruptIndex, match=what):
        TransactionIndex(path, pool, cache).collect(0, 100)


class BusyLock:
    """A lock that another thread gets first, once, for what it has to do."""

    def __init__(self, first: Callable[[], object]) -> None:
        self._first: Callable[[], object] | None = first
        self._lock = Lock()

    def __enter__(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            first()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_an_entry_that_comes_while_a_new_index_is_flushed_stays(
    disk: CrashDisk, path: Path, pool: FilePool, cache: IndexCache
) -> None:
    index = TransactionIndex(path, pool, cache, new=True)
    index._lock = BusyLock(lambda: index.append(A))  # type: ignore[assignment]

    index.flush()

    assert TransactionIndex(path, pool, cache).entries() == [A]
    assert disk.unsynced_bytes(path) == 0
