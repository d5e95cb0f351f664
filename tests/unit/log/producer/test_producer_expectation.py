"""Producer state at its borders: what comes next, what a snapshot left out, replicated markers."""

from collections.abc import Callable

import pytest

from headrace.log.producer.producer_entry import BatchMetadata, Duplicate, ProducerEntry
from headrace.log.producer.producer_state import AppendOrigin, ProducerState
from headrace.model.error import (
    InvalidArgument,
    InvalidProducerEpoch,
    OutOfOrderSequence,
)

PID = 40


@pytest.fixture
def state() -> ProducerState:
    state = ProducerState()
    state.append(PID, 2, 0, 9, 0, 9, 1000)
    return state


def begin(state: ProducerState, producer_id: int, offset: int, *, epoch: int = 0) -> None:
    """Append the first batch of a transaction, one record."""
    state.append(producer_id, epoch, 0, 0, offset, offset, 1000, transactional=True)


def end(state: ProducerState, producer_id: int, offset: int, *, epoch: int = 0) -> None:
    state.end_transaction(producer_id, epoch, 0, offset, 2000, aborted=False)


class TestExpecting:
    def test_just_what_comes_next(self, state: ProducerState) -> None:
        assert state.expecting(PID, 2, 10) is state.get(PID)

    @pytest.mark.parametrize(
        ("producer_id", "epoch", "sequence"), [(41, 2, 10), (PID, 1, 10), (PID, 3, 10), (PID, 2, 9)]
    )
    def test_nothing_else(
        self, state: ProducerState, producer_id: int, epoch: int, sequence: int
    ) -> None:
        assert state.expecting(producer_id, epoch, sequence) is None

    @pytest.mark.parametrize("first_offset", [0, 1])
    def test_only_batches_of_a_transaction_while_it_is_open(self, first_offset: int) -> None:
        state = ProducerState()
        begin(state, PID, first_offset)

        assert state.expecting(PID, 0, 1) is None

        assert state.expecting(PID, 0, 1, transactional=True) is not None

        end(state, PID, first_offset + 1)
        assert state.expecting(PID, 0, 1) is not None
        assert state.expecting(PID, 0, 1, transactional=True) is None


class TestProducerIds:
    def test_zero_is_one(self) -> None:
        state = ProducerState()
        state.append(0, 0, 0, 0, 0, 0, 1000)

        assert 0 in state
        assert state.check(0, 0, 0, 0) == Duplicate(0, 0, 1000)
        with pytest.raises(OutOfOrderSequence):
            state.check(0, 0, 7, 7)
        state.check_marker(0, 0, 0)
        state.load([ProducerEntry(0)])

    def test_minus_one_is_none(self, state: ProducerState) -> None:
        state.append(-1, -1, -1, -1, 10, 10, 1000)

        assert len(state) == 1
        assert state.check(-1, -1, -1, -1, strict_start=True) is None
        with pytest.raises(InvalidArgument):
            state.load([ProducerEntry(-1)])


class TestCheck:
    def test_a_coordinator_may_begin_anywhere_also_in_transaction_version_2(self) -> None:
        state = ProducerState()

        origin = AppendOrigin.COORDINATOR
        assert state.check(PID, 0, 5, 5, origin=origin, strict_start=True) is None

    def test_a_coordinator_gets_no_duplicate(self, state: ProducerState) -> None:
        assert state.check(PID, 2, 0, 9, origin=AppendOrigin.COORDINATOR) is None

    def test_what_was_replicated_is_not_checked(self, state: ProducerState) -> None:
        assert state.check(PID, 1, 77, 78, origin=AppendOrigin.REPLICATION) is None

    def test_a_duplicate_of_a_transaction_that_is_open_is_one(self, state: ProducerState) -> None:
        state.append(PID, 2, 10, 10, 10, 10, 1000, transactional=True)

        assert state.check(PID, 2, 10, 10) == Duplicate(10, 10, 1000)


class TestTransaction:
    def test_it_begins_with_its_first_batch_and_not_with_a_later_one(self) -> None:
        state = ProducerState()
        begin(state, PID, 0)
        state.append(PID, 0, 1, 1, 1, 1, 1000, transactional=True)

        assert state.first_undecided_offset() == 0

    def test_a_plain_batch_opens_none(self, state: ProducerState) -> None:
        assert not state.has_open_transaction(PID, 2)
        assert state.first_undecided_offset() is None

    def test_no_unknown_producer_has_one(self, state: ProducerState) -> None:
        assert not state.has_open_transaction(41, 0)

    def test_a_marker_is_remembered_with_its_coordinator_and_time(self) -> None:
        state = ProducerState()
        begin(state, PID, 0)

        state.end_transaction(PID, 1, 7, 1, 5000, aborted=True)

        entry = state.get(PID)
        assert entry is not None
        assert (entry.epoch, entry.coordinator_epoch, entry.last_timestamp_ms) == (1, 7, 5000)
        assert not entry.in_transaction
        state.check_marker(PID, 1, 7)
        state.check_marker(PID, 1, 8)

    def test_before_version_2_a_marker_has_the_epoch_of_the_producer(self) -> None:
        state = ProducerState()
        begin(state, PID, 0, epoch=3)

        state.check_marker(PID, 3, 0, transaction_version=1)
        with pytest.raises(InvalidProducerEpoch):
            state.check_marker(PID, 3, 0, transaction_version=2)
        with pytest.raises(InvalidProducerEpoch):
            state.check_marker(PID, 3, 0, transaction_version=3)

    def test_a_marker_of_an_unknown_producer_may_come(self, state: ProducerState) -> None:
        with pytest.raises(InvalidProducerEpoch):
            state.check_marker(PID, 0, 0)

        state.check_marker(41, 0, 0)

        assert state.get(41) is None

    def test_one_that_begins_at_offset_zero_begins_there_only(self) -> None:
        state = ProducerState()
        begin(state, PID, 0)
        state.append(PID, 0, 1, 1, 1, 1, 1000, transactional=True)

        end(state, PID, 2)

        assert state.first_undecided_offset() is None

    def test_it_is_unstable_while_it_is_open_and_until_its_marker_is_replicated(self) -> None:
        state = ProducerState()
        assert not state.has_unstable
        begin(state, PID, 0)
        assert state.has_unstable

        end(state, PID, 1)
        assert state.has_unstable

        state.advance(2)
        assert not state.has_unstable


class TestReplicatedMarkers:
    def test_the_oldest_of_several_decided_ones_holds_readers(self) -> None:
        state = ProducerState()
        for number in (1, 2, 3):
            begin(state, number, number)
        end(state, 1, 4)
        end(state, 2, 5)

        assert state.first_unstable_offset() == 1

    def test_a_marker_at_the_high_watermark_is_not_below_it(self) -> None:
        state = ProducerState()
        begin(state, PID, 0)
        state.advance(1)

        end(state, PID, 1)

        assert state.first_unstable_offset() == 0
        state.advance(2)
        assert state.first_unstable_offset() is None

    def test_a_marker_below_it_holds_no_reader(self) -> None:
        state = ProducerState()
        begin(state, PID, 0)
        state.advance(2)

        end(state, PID, 1)

        assert state.first_unstable_offset() is None

    def test_the_high_watermark_does_not_go_back(self) -> None:
        state = ProducerState()
        state.advance(5)
        state.advance(3)
        begin(state, PID, 3)

        end(state, PID, 4)

        assert state.first_unstable_offset() is None

    def test_an_older_open_transaction_holds_readers_before_a_decided_one(self) -> None:
        state = ProducerState()
        begin(state, 1, 0)
        begin(state, 2, 1)

        end(state, 2, 2)

        assert state.first_unstable_offset() == 0

    def test_a_decided_one_that_is_older_than_every_open_one_does(self) -> None:
        state = ProducerState()
        begin(state, 1, 0)
        begin(state, 2, 1)

        end(state, 1, 2)

        assert state.first_unstable_offset() == 0
        assert state.first_undecided_offset() == 1
        state.advance(3)
        assert state.first_unstable_offset() == 1

    def test_after_a_cut_markers_are_waited_for_again(self) -> None:
        state = ProducerState()
        state.advance(10)
        state.clear()
        begin(state, PID, 0)

        end(state, PID, 1)

        assert state.first_unstable_offset() == 0

    def test_a_snapshot_replaces_what_was_known(self) -> None:
        state = ProducerState()
        begin(state, 1, 0)

        state.load([ProducerEntry(2)])

        assert 1 not in state
        assert state.first_undecided_offset() is None


class TestIncomplete:
    """Of a snapshot only the last batch is known."""

    @pytest.fixture
    def loaded(self) -> Callable[..., ProducerState]:
        def loaded(batches: int = 1, epoch: int = 2) -> ProducerState:
            state = ProducerState()
            known = [BatchMetadata(each, each, each, 0, 1000) for each in range(batches)]
            state.load([ProducerEntry(PID, epoch, 0, 1000, -1, known)])
            return state

        return loaded

    def test_one_is_handed_out_once(self, loaded: Callable[..., ProducerState]) -> None:
        state = loaded()

        assert state.take_incomplete(PID, 2) is state.get(PID)
        assert state.take_incomplete(PID, 2) is None

    def test_not_one_that_is_complete_empty_or_of_another_epoch(
        self, loaded: Callable[..., ProducerState]
    ) -> None:
        assert loaded(batches=5).take_incomplete(PID, 2) is None
        assert loaded(batches=0).take_incomplete(PID, 2) is None
        assert loaded().take_incomplete(PID, 3) is None

    def test_not_one_that_was_never_in_a_snapshot(self, state: ProducerState) -> None:
        assert state.take_incomplete(PID, 2) is None
        assert state.take_incomplete(41, 2) is None

    def test_not_one_that_has_expired_since(self, loaded: Callable[..., ProducerState]) -> None:
        state = loaded()
        state.expire(10**12)
        state.append(PID, 2, 0, 0, 5, 5, 10**12)

        assert state.take_incomplete(PID, 2) is None

    def test_not_after_the_log_was_cut(self, loaded: Callable[..., ProducerState]) -> None:
        state = loaded()
        state.clear()
        state.append(PID, 2, 0, 0, 5, 5, 1000)

        assert state.take_incomplete(PID, 2) is None

    def test_what_is_recalled_comes_before_what_is_known(
        self, loaded: Callable[..., ProducerState]
    ) -> None:
        state = loaded()
        entry = state.take_incomplete(PID, 2)
        assert entry is not None

        state.recall(entry, [BatchMetadata(100, 104, 54, 4, 900)])

        assert [each.first_sequence for each in entry.batches] == [100, 0]
        assert state.check(PID, 2, 100, 104) == Duplicate(50, 54, 900)
