"""The transaction index against Kafka's rule, written as the plain loop it is."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.transaction_index import AbortedTransactionEntry, TransactionIndex
from testkit.fault.crash_disk import CrashDisk

DATA = Path("/data")


@st.composite
def aborted_transactions(draw: st.DrawFn) -> list[AbortedTransactionEntry]:
    """As a log writes them: markers in order, the stable offset never past the marker's next."""
    entries = []
    last, stable = 0, 0
    for producer in range(draw(st.integers(0, 12))):
        last += draw(st.integers(2, 20))
        first = draw(st.integers(stable, last - 1)) if stable < last else last - 1
        stable = draw(st.integers(stable, last + 1))
        entries.append(AbortedTransactionEntry(producer, first, last, stable))
    return entries


@settings(deadline=None, max_examples=200)
@given(entries=aborted_transactions(), start=st.integers(0, 250), length=st.integers(1, 100))
def test_collecting_agrees_with_a_plain_loop(
    entries: list[AbortedTransactionEntry], start: int, length: int
) -> None:
    disk = CrashDisk()
    disk.make_directory(DATA)
    files, cache = FilePool(disk, 4), IndexCache()
    index = TransactionIndex(DATA / "0.txnindex", files, cache, new=True)
    for entry in entries:
        index.append(entry)
    index.close()

    expected: list[AbortedTransactionEntry] = []
    complete = False
    for entry in entries:
        if entry.last_offset >= start and entry.first_offset < start + length:
            expected.append(entry)
        if entry.last_stable_offset >= start + length:
            complete = True
            break

    reopened = TransactionIndex(DATA / "0.txnindex", files, cache)
    assert reopened.collect(start, start + length) == (expected, complete)
