"""Producer state: sequences, epochs, transactions, as Kafka's leader decides them."""

from collections import OrderedDict

import pytest

from headrace.log.producer.producer_entry import Duplicate
from headrace.log.producer.producer_state import AppendOrigin, CompletedTransaction, ProducerState
from headrace.model.error import (
    CoordinatorFenced,
    InvalidArgument,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    UnknownProducer,
)
from headrace.records.batch import add_sequence

PID = 40
LAST_SEQUENCE = 2**31 - 1


class Log:
    """A state that is fed as a log feeds it: check, take the next offsets, remember."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end = 0

    def append(
        self,
        first: int,
        count: int = 1,
        *,
        producer_id: int = PID,
        epoch: int = 0,
        transactional: bool = False,
        timestamp_ms: int = 1000,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        strict_start: bool = False,
    ) -> Duplicate | None:
        last = first if first < 0 else add_sequence(first, count - 1)
        duplicate = self.state.check(
            producer_id,
            epoch,
            first,
            last,
            transactional=transactional,
            origin=origin,
            strict_start=strict_start,
        )
        if duplicate is None:
            base, self.end = self.end, self.end + count
            self.state.append(
                producer_id,
                epoch,
                first,
                last,
                base,
                self.end - 1,
                timestamp_ms,
                transactional=transactional,
            )
        return duplicate

    def mark(
        self,
        *,
        producer_id: int = PID,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        aborted: bool = False,
        transaction_version: int = 0,
    ) -> CompletedTransaction | None:
        self.state.check_marker(
            producer_id, epoch, coordinator_epoch, transaction_version=transaction_version
        )
        self.end += 1
        return self.state.end_transaction(
            producer_id, epoch, coordinator_epoch, self.end - 1, 2000, aborted=aborted
        )


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.mark.parametrize(
    ("sequence", "count", "after"),
    [(0, 1, 1), (LAST_SEQUENCE, 1, 0), (LAST_SEQUENCE - 1, 3, 1), (-1, 1, 0)],
)
def test_after_the_last_sequence_comes_zero(sequence: int, count: int, after: int) -> None:
    assert add_sequence(sequence, count) == after
    if sequence >= 0:
        assert add_sequence(after, -count) == sequence


# -- sequences


def test_a_batch_without_a_producer_leaves_no_trace(log: Log) -> None:
    assert log.append(-1, producer_id=-1, epoch=-1) is None
    assert len(log.state) == 0


def test_batches_that_continue_each_other_are_taken(log: Log) -> None:
    assert log.append(0, 10) is None
    assert log.append(10, 5) is None
    assert log.append(15) is None


def test_a_gap_is_out_of_order(log: Log) -> None:
    log.append(0, 10)
    with pytest.raises(OutOfOrderSequence, match="sends sequence 11 where 10 comes next"):
        log.append(11)


def test_sequences_wrap(log: Log) -> None:
    log.append(LAST_SEQUENCE - 1, 2)
    assert log.append(0) is None


def test_a_batch_that_wraps_inside_is_remembered(log: Log) -> None:
    log.append(LAST_SEQUENCE - 1, 5)
    assert log.append(LAST_SEQUENCE - 1, 5) == Duplicate(0, 4, 1000)
    assert log.append(3) is None


def test_one_of_the_last_five_batches_is_a_duplicate(log: Log) -> None:
    for first in range(0, 60, 10):
        log.append(first, 10, timestamp_ms=first)
    assert log.append(10, 10) == Duplicate(10, 19, 10)
    assert log.append(50, 10) == Duplicate(50, 59, 50)


def test_a_duplicate_older_than_that_is_out_of_order(log: Log) -> None:
    for first in range(0, 60, 10):
        log.append(first, 10)
    with pytest.raises(OutOfOrderSequence):
        log.append(0, 10)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_number_of_a_transaction_that_has_ended_is_no_duplicate(log: Log, count: int) -> None:
    """librdkafka takes one again after an abort, for other records, as many as there are."""
    log.append(0, 2, transactional=True)
    assert log.append(0, 2, transactional=True) == Duplicate(0, 1, 1000)
    log.mark(aborted=True)

    with pytest.raises(UnknownProducer, match="in a transaction that has ended"):
        log.append(0, count, transactional=True)

    log.append(2, transactional=True)
    log.append(3, transactional=True)
    assert log.append(2, transactional=True) == Duplicate(3, 3, 1000)
    with pytest.raises(UnknownProducer, match="in a transaction that has ended"):
        log.append(0, count, transactional=True)


def test_a_gap_within_a_transaction_is_out_of_order(log: Log) -> None:
    log.append(0, transactional=True)
    with pytest.raises(OutOfOrderSequence):
        log.append(2, transactional=True)
    log.mark()
    with pytest.raises(OutOfOrderSequence):
        log.append(2, transactional=True)


def test_a_batch_that_overlaps_an_old_one_is_no_duplicate(log: Log) -> None:
    log.append(0, 10)
    with pytest.raises(OutOfOrderSequence):
        log.append(0, 9)


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert log.append(1234) is None
    assert log.append(1235) is None


def test_an_unknown_producer_of_transaction_version_2_begins_at_zero(log: Log) -> None:
    with pytest.raises(OutOfOrderSequence, match="must begin with sequence 0, not 3"):
        log.append(3, strict_start=True)
    assert log.append(0, strict_start=True) is None


def test_a_refused_batch_leaves_no_trace(log: Log) -> None:
    log.append(0, 10)
    with pytest.raises(OutOfOrderSequence):
        log.append(11)
    assert log.append(10) is None


# -- epochs


def test_a_new_epoch_begins_at_zero(log: Log) -> None:
    log.append(0, 10)
    with pytest.raises(OutOfOrderSequence, match="where 0 comes next"):
        log.append(10, epoch=1)
    assert log.append(0, epoch=1) is None


def test_an_old_epoch_is_fenced(log: Log) -> None:
    log.append(0, epoch=2)
    with pytest.raises(InvalidProducerEpoch, match="epoch 1, but epoch 2"):
        log.append(1, epoch=1)


def test_the_same_sequences_in_a_new_epoch_are_no_duplicate(log: Log) -> None:
    log.append(0, 10)
    assert log.append(0, 10, epoch=1) is None


def test_a_coordinator_writes_without_sequences_but_not_with_an_old_epoch(log: Log) -> None:
    log.append(-1, epoch=1, transactional=True, origin=AppendOrigin.COORDINATOR)
    log.append(-1, epoch=1, transactional=True, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(InvalidProducerEpoch):
        log.append(-1, epoch=0, transactional=True, origin=AppendOrigin.COORDINATOR)


def test_what_the_leader_took_is_remembered_unchecked(log: Log) -> None:
    log.append(0, 10, epoch=5)
    log.append(99, 1, epoch=4, origin=AppendOrigin.REPLICATION)
    entry = log.state.get(PID)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.last_offset) == (4, 99, 10)


# -- transactions


def test_an_open_transaction_holds_readers_at_its_first_record(log: Log) -> None:
    log.append(0, 10)
    log.append(10, 5, transactional=True)
    log.append(15, 5, transactional=True)
    assert log.state.first_unstable_offset() == 10
    assert log.state.has_open_transaction(PID, 0)
    assert not log.state.has_open_transaction(PID, 1)


def test_a_plain_write_in_an_open_transaction_is_refused(log: Log) -> None:
    log.append(0, transactional=True)
    with pytest.raises(InvalidTransactionState, match="since offset 0"):
        log.append(1)


@pytest.mark.parametrize("aborted", [True, False])
def test_a_marker_completes_the_transaction(log: Log, aborted: bool) -> None:
    log.append(0, 10, transactional=True)
    completed = log.mark(aborted=aborted)
    assert completed == CompletedTransaction(PID, 0, 10, aborted, 11)
    assert log.state.first_undecided_offset() is None


def test_a_marker_without_records_completes_nothing(log: Log) -> None:
    assert log.mark() is None
    assert log.state.first_unstable_offset() is None
    assert PID in log.state


def test_the_stable_offset_of_a_marker_is_where_the_next_open_transaction_begins(log: Log) -> None:
    log.append(0, transactional=True, producer_id=1)
    log.append(0, transactional=True, producer_id=2)
    log.append(0, transactional=True, producer_id=3)
    first = log.mark(producer_id=1)
    last = log.mark(producer_id=3)
    assert first is not None
    assert first.last_stable_offset == 1
    assert last is not None
    assert last.last_stable_offset == 1


def test_readers_wait_until_the_marker_is_replicated(log: Log) -> None:
    log.append(0, 10, transactional=True)
    log.mark()
    assert log.state.first_unstable_offset() == 0
    log.state.advance(10)
    assert log.state.first_unstable_offset() == 0
    log.state.advance(11)
    assert log.state.first_unstable_offset() is None


def test_a_later_transaction_replicated_first_does_not_move_readers(log: Log) -> None:
    log.append(0, transactional=True, producer_id=1)
    log.append(0, transactional=True, producer_id=2)
    log.mark(producer_id=2)
    log.mark(producer_id=1)
    log.state.advance(3)
    assert log.state.first_unstable_offset() == 0
    log.state.advance(4)
    assert log.state.first_unstable_offset() is None


def test_a_marker_of_an_old_epoch_is_fenced(log: Log) -> None:
    log.append(0, epoch=3, transactional=True)
    with pytest.raises(InvalidProducerEpoch, match="has epoch 2, at least 3"):
        log.mark(epoch=2)


def test_a_marker_of_an_old_coordinator_is_fenced(log: Log) -> None:
    log.mark(coordinator_epoch=5)
    with pytest.raises(CoordinatorFenced, match="epoch 4, but 5"):
        log.mark(coordinator_epoch=4)


def test_since_version_2_a_marker_must_raise_the_epoch(log: Log) -> None:
    log.append(0, epoch=3, transactional=True)
    with pytest.raises(InvalidProducerEpoch, match="at least 4"):
        log.mark(epoch=3, transaction_version=2)
    assert log.mark(epoch=4, transaction_version=2) is not None


def test_since_version_2_a_marker_may_be_retried_when_nothing_is_open(log: Log) -> None:
    log.append(0, epoch=3, transactional=True)
    log.mark(epoch=4, transaction_version=2)
    assert log.mark(epoch=4, transaction_version=2) is None


def test_after_a_marker_that_raised_the_epoch_sequences_begin_at_zero(log: Log) -> None:
    log.append(0, 10, epoch=3, transactional=True)
    log.mark(epoch=4, transaction_version=2)
    with pytest.raises(OutOfOrderSequence):
        log.append(10, epoch=4)
    assert log.append(0, epoch=4) is None


def test_after_a_marker_of_the_same_epoch_sequences_go_on(log: Log) -> None:
    log.append(0, 10, transactional=True)
    log.mark()
    assert log.append(10, transactional=True) is None


def test_a_marker_needs_a_producer(log: Log) -> None:
    with pytest.raises(InvalidArgument, match="at least 0"):
        log.mark(producer_id=-1)


# -- lifetime


def test_an_idle_producer_expires(log: Log) -> None:
    log.append(0, timestamp_ms=1000)
    assert log.state.expire(1000 + 99, 100) == []
    assert log.state.expire(1000 + 100, 100) == [PID]
    assert log.append(77) is None


def test_one_with_an_open_transaction_never_expires(log: Log) -> None:
    log.append(0, transactional=True)
    assert log.state.expire(10**15) == []


def test_entries_load_in_any_order(log: Log) -> None:
    log.append(0, transactional=True, producer_id=9)
    log.append(0, transactional=True, producer_id=8)
    loaded = ProducerState()
    loaded.load(reversed(list(log.state.entries())))
    assert loaded.first_unstable_offset() == 0
    loaded.end_transaction(9, 0, 0, 2, 0, aborted=False)
    assert loaded.first_undecided_offset() == 1


def test_clearing_forgets_all(log: Log) -> None:
    log.append(0, transactional=True)
    log.mark()
    log.append(1, transactional=True)
    log.state.clear()
    assert len(log.state) == 0
    assert log.state.first_unstable_offset() is None


def test_another_thread_sees_a_transaction_until_its_marker_is_replicated() -> None:
    log = Log()
    log.append(0, transactional=True)
    state = log.state
    seen: list[bool] = []

    class Ongoing(OrderedDict[int, int]):
        """Looks, as a reader of another thread may, between two steps of the writer."""

        def __delitem__(self, key: int) -> None:
            super().__delitem__(key)
            seen.append(state.has_unstable)

    state._unstable = state._unstable._replace(ongoing=Ongoing(state._unstable.ongoing))

    state.end_transaction(PID, 0, 0, log.end, 1000, aborted=False)

    assert seen == [True]


def test_one_that_ended_a_transaction_is_kept_while_a_marker_waits_for_replication(
    log: Log,
) -> None:
    log.append(0, transactional=True)
    log.mark()
    log.state.append(PID + 1, 0, 0, 0, 5, 5, 0)
    log.state.end_transaction(PID + 2, 0, 0, 6, 0, aborted=False)

    assert sorted(log.state.expire(10**15)) == [PID, PID + 1]
    assert log.state.has_markers

    log.state.advance(10)
    assert log.state.expire(10**15) == [PID + 2]


def test_a_state_that_is_adopted_is_seen_whole(log: Log) -> None:
    log.append(0, transactional=True)
    log.mark()
    loaded = ProducerState()
    loaded.load(entry.copy() for entry in log.state.entries())
    assert loaded.has_markers
    loaded.add_unreplicated(0, log.end)

    log.state.adopt(loaded)

    assert log.state.first_unstable_offset() == 0
    log.state.advance(log.end + 1)
    assert not log.state.has_unstable
    assert PID in log.state
