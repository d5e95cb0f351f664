"""Transactions in one partition."""

import sys
from collections.abc import Callable
from threading import Event, Thread

import pytest

from headrace.log.partition.admission import unchecked
from headrace.log.partition.partition_log import PartitionLog
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill


def begin(log: PartitionLog, producer_id: int) -> None:
    batch = sample_batch(
        b"t", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
    )
    log.append(batch, 0)
    log.set_high_watermark(log.log_end_offset)


def end(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    log.append_marker(producer_id, 0, 0, commit=commit, coordinator_epoch=0)
    log.set_high_watermark(log.log_end_offset)


def test_the_last_stable_offset_waits_for_the_oldest_transaction(log: PartitionLog) -> None:
    fill(log, 1)
    begin(log, 1)
    begin(log, 2)
    assert log.last_stable_offset == 1

    end(log, 1, commit=True)
    assert log.last_stable_offset == 2
    end(log, 2, commit=False)
    assert log.last_stable_offset == log.high_watermark == 5


def test_a_marker_counts_once_it_is_replicated(log: PartitionLog) -> None:
    begin(log, 1)
    log.append_marker(1, 0, 0, commit=True, coordinator_epoch=0)
    assert log.last_stable_offset == 0
    log.set_high_watermark(2)
    assert log.last_stable_offset == 2


def test_aborted_transactions_are_listed_by_first_offset(log: PartitionLog) -> None:
    begin(log, 1)
    begin(log, 2)
    end(log, 2, commit=False)
    end(log, 1, commit=False)

    aborted = log.aborted_transactions(0, 4)

    assert [(each.producer_id, each.first_offset) for each in aborted] == [(1, 0), (2, 1)]
    assert log.aborted_transactions(4, 4) == []


def test_a_transaction_aborted_in_a_later_segment_is_found(log: PartitionLog) -> None:
    begin(log, 1)
    log.roll()
    fill(log, 3)
    log.roll()
    end(log, 1, commit=False)

    assert [each.producer_id for each in log.aborted_transactions(0, 2)] == [1]


def test_open_transactions_can_be_asked_for(log: PartitionLog) -> None:
    begin(log, 1)
    assert log.has_open_transaction(1, 0)
    end(log, 1, commit=True)
    assert not log.has_open_transaction(1, 0)


@pytest.mark.parametrize("rolled", [False, True])
def test_only_aborted_transactions_near_what_is_read_are_listed(
    open_log: Callable[..., PartitionLog], rolled: bool
) -> None:
    log = open_log(index_interval_bytes=400)
    for producer_id in range(200):
        begin(log, producer_id)
        end(log, producer_id, commit=False)
    if rolled:
        log.roll()
    piece = log.read(100, 1000, max_offset=log.last_stable_offset)
    batches = unchecked(piece.read(), whole=False)

    aborted = log.aborted_in(100, piece)

    needed = {each.producer_id for each in batches if not each.is_control}
    listed = [each.producer_id for each in aborted]
    assert needed <= set(listed)
    assert listed[0] == 50
    # One interval of the index more, and no more.
    assert len(listed) <= len(needed) + 4


def test_all_aborted_transactions_of_a_whole_log_are_listed(log: PartitionLog) -> None:
    for producer_id in range(50):
        begin(log, producer_id)
        end(log, producer_id, commit=False)
    start, listed = 0, []
    while start < log.last_stable_offset:
        piece = log.read(start, 300, max_offset=log.last_stable_offset)
        listed += [each.producer_id for each in log.aborted_in(start, piece)]
        start = unchecked(piece.read(), whole=False)[-1].last_offset + 1

    assert set(listed) == set(range(50))
    assert log.aborted_in(start, log.read(start, 300, max_offset=start)) == []


def test_producers_are_listed_as_they_are_now(log: PartitionLog) -> None:
    def batch(sequence: int) -> bytes:
        return sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=sequence)

    log.append(batch(0), 0)
    listed = log.producer_entries()
    log.append(batch(1), 0)
    log.append(sample_batch(b"b", producer_id=2, producer_epoch=0, sequence=0), 0)

    assert [(entry.producer_id, entry.last_sequence) for entry in listed] == [(1, 0)]


def test_the_last_stable_offset_can_be_read_while_transactions_come_and_go(
    log: PartitionLog,
) -> None:
    """As compaction reads it, in a thread of its own. Records have even offsets, their markers
    the next ones: a record is shown only when its marker is there."""
    wrong: list[object] = []
    done = Event()

    def read() -> None:
        while not done.is_set():
            try:
                stable = log.last_stable_offset
            except (IndexError, RuntimeError, StopIteration) as error:
                wrong.append(error)
                return
            if stable % 2 and log.log_end_offset <= stable:
                wrong.append(stable)

    reader = Thread(target=read)
    reader.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for sequence in range(1500):
            log.append(
                sample_batch(
                    b"a", producer_id=1, producer_epoch=0, sequence=sequence, transactional=True
                ),
                0,
            )
            log.set_high_watermark(log.log_end_offset)
            log.append_marker(1, 0, 0, commit=True, coordinator_epoch=0)
            log.set_high_watermark(log.log_end_offset)
    finally:
        sys.setswitchinterval(before)
        done.set()
        reader.join(90)

    assert wrong == []
