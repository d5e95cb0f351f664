"""The life of a transactional id, as its coordinator decides it."""

from dataclasses import replace

import pytest

from headrace.model.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions import record
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions, EndReply, InitReply

V2 = 2


def at_epoch(coordinator, epoch):
    """The producer of `pay`, after its epoch was brought to `epoch` behind the registry's back."""
    owner = coordinator.init()
    metadata = coordinator.registry.metadata("pay")
    coordinator.log.append(record.encode(replace(metadata, producer_epoch=ProducerEpoch(epoch))))
    coordinator.restart()
    return InitReply(producer_id=owner.producer_id, producer_epoch=ProducerEpoch(epoch))


class TestInitProducerId:
    def test_a_new_id_starts_at_epoch_zero(self, coordinator):
        assert coordinator.init() == InitReply(
            producer_id=ProducerId(1000), producer_epoch=ProducerEpoch(0)
        )
        assert coordinator.state() == "Empty"

    def test_a_second_producer_gets_the_next_epoch(self, coordinator):
        coordinator.init()

        second = coordinator.init()

        assert (second.producer_id, second.producer_epoch) == (1000, 1)

    @pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
    def test_the_timeout_must_lie_within_the_brokers_limit(self, coordinator, timeout_ms):
        reply = coordinator.init(timeout_ms=timeout_ms)

        assert reply.error is TransactionError.INVALID_TRANSACTION_TIMEOUT

    @pytest.mark.parametrize("timeout_ms", [1, 900_000])
    def test_the_timeout_may_be_the_shortest_or_the_longest(self, coordinator, timeout_ms):
        assert coordinator.init(timeout_ms=timeout_ms).error is TransactionError.NONE

    @pytest.mark.parametrize("name", ["x", "x" * 32_767])
    def test_an_id_that_a_record_can_name_is_taken(self, coordinator, name):
        assert coordinator.init(name).error is TransactionError.NONE

    @pytest.mark.parametrize("name", ["", "x" * 32_768])
    def test_an_id_that_no_record_can_name_is_refused(self, coordinator, name):
        assert coordinator.init(name).error is TransactionError.INVALID_REQUEST

    @pytest.mark.parametrize("resume", [(7, -1), (-1, 7)])
    def test_producer_id_and_epoch_come_together(self, coordinator, resume):
        assert coordinator.init(resume=resume).error is TransactionError.INVALID_REQUEST

    def test_an_open_transaction_is_aborted_first(self, coordinator):
        zombie = coordinator.init()
        coordinator.add(zombie, 0)

        assert coordinator.init().error is TransactionError.CONCURRENT_TRANSACTIONS
        assert coordinator.init().error is TransactionError.CONCURRENT_TRANSACTIONS
        [markers] = coordinator.write_markers()
        owner = coordinator.init()

        assert not markers.commit
        assert markers.producer_epoch == 1
        assert owner.producer_epoch == 2
        assert coordinator.end(zombie, commit=True).error is TransactionError.PRODUCER_FENCED

    def test_without_a_free_producer_id_the_client_comes_back(self, coordinator):
        coordinator.next_id = lambda: None
        coordinator.restart()

        assert coordinator.init().error is TransactionError.COORDINATOR_LOAD_IN_PROGRESS
        assert len(coordinator.registry) == 0


class TestResumeAfterAnError:
    """KIP-360: the producer sends the id and epoch it has."""

    def test_the_epoch_goes_up_by_one(self, coordinator):
        coordinator.init()

        assert coordinator.init(resume=(1000, 0)).producer_epoch == 1

    def test_a_retry_gets_the_same_answer(self, coordinator):
        coordinator.init()
        first = coordinator.init(resume=(1000, 0))

        assert coordinator.init(resume=(1000, 0)) == first

    def test_a_producer_that_was_replaced_is_fenced(self, coordinator):
        coordinator.init()
        coordinator.init()

        reply = coordinator.init(resume=(1000, 0))

        assert reply.error is TransactionError.PRODUCER_FENCED

    def test_another_producers_id_is_fenced(self, coordinator):
        coordinator.init()

        assert coordinator.init(resume=(5, 0)).error is TransactionError.PRODUCER_FENCED

    def test_an_id_that_expired_is_simply_new(self, coordinator):
        reply = coordinator.init(resume=(5, 3))

        assert (reply.producer_id, reply.producer_epoch) == (1000, 0)

    def test_used_up_epochs_give_a_new_producer_id(self, coordinator):
        at_epoch(coordinator, 32766)

        first = coordinator.init(resume=(1000, 32766))
        retried = coordinator.init(resume=(1000, 32766))

        assert (first.producer_id, first.producer_epoch) == (1001, 0)
        assert retried == first

    @pytest.mark.parametrize("resume", [(1000, 5), (7, 32766)])
    def test_only_the_last_epoch_of_the_former_id_is_a_retry(self, coordinator, resume):
        at_epoch(coordinator, 32766)
        coordinator.init(resume=(1000, 32766))

        assert coordinator.init(resume=resume).error is TransactionError.PRODUCER_FENCED

    def test_the_epoch_before_the_last_is_handed_out(self, coordinator):
        at_epoch(coordinator, 32765)

        reply = coordinator.init()

        assert (reply.producer_id, reply.producer_epoch) == (1000, 32766)

    def test_a_new_producer_moves_on_from_used_up_epochs_too(self, coordinator):
        at_epoch(coordinator, 32766)

        reply = coordinator.init()

        assert (reply.producer_id, reply.producer_epoch) == (1001, 0)


class TestAddPartitions:
    def test_the_first_one_opens_the_transaction(self, coordinator):
        owner = coordinator.init()

        assert coordinator.add(owner, 0) is TransactionError.NONE

        metadata = coordinator.registry.metadata("pay")
        assert metadata.state.label == "Ongoing"
        assert metadata.start_ms == coordinator.now_ms

    def test_more_join_and_the_start_stays(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        started_ms = coordinator.now_ms
        coordinator.now_ms += 5

        coordinator.add(owner, 1)

        metadata = coordinator.registry.metadata("pay")
        assert {partition.partition for partition in metadata.partitions} == {0, 1}
        assert metadata.start_ms == started_ms

    def test_known_partitions_write_nothing(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0, 1)
        written = len(coordinator.log)

        assert coordinator.add(owner, 1) is TransactionError.NONE
        assert coordinator.add(owner, 0, 1) is TransactionError.NONE
        assert len(coordinator.log) == written

    def test_an_unknown_id_has_no_mapping(self, coordinator):
        owner = InitReply(producer_id=ProducerId(9), producer_epoch=ProducerEpoch(0))

        assert coordinator.add(owner, 0) is TransactionError.INVALID_PRODUCER_ID_MAPPING

    def test_another_producer_id_has_no_mapping(self, coordinator):
        owner = replace(coordinator.init(), producer_id=ProducerId(9))

        assert coordinator.add(owner, 0) is TransactionError.INVALID_PRODUCER_ID_MAPPING

    def test_an_older_epoch_is_fenced(self, coordinator):
        zombie = coordinator.init()
        coordinator.init()

        assert coordinator.add(zombie, 0) is TransactionError.PRODUCER_FENCED

    def test_the_next_transaction_waits_for_the_markers_of_the_last(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)

        assert coordinator.add(owner, 0) is TransactionError.CONCURRENT_TRANSACTIONS
        coordinator.write_markers()
        assert coordinator.add(owner, 0) is TransactionError.NONE


class TestVerifyPartitions:
    """KIP-890 part 1: the partition's leader asks before it lets a transactional batch in."""

    def ask(self, coordinator, owner, number):
        event = AddPartitions(
            transactional_id="pay",
            producer_id=owner.producer_id,
            producer_epoch=owner.producer_epoch,
            partitions=frozenset({TopicPartition("orders", number)}),
        )
        return coordinator.registry.verify_partitions(event)

    def test_a_partition_of_the_transaction_is_confirmed(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)

        reply = self.ask(coordinator, owner, 0)

        assert list(reply.partitions.values()) == [TransactionError.NONE]

    def test_any_other_makes_the_transaction_abortable(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)

        reply = self.ask(coordinator, owner, 1)

        assert list(reply.partitions.values()) == [TransactionError.TRANSACTION_ABORTABLE]

    def test_a_fenced_producer_is_told_so(self, coordinator):
        zombie = coordinator.init()
        coordinator.init()

        assert self.ask(coordinator, zombie, 0).error is TransactionError.PRODUCER_FENCED


class TestClassicEnd:
    """EndTxn up to version 4, as librdkafka sends it."""

    @pytest.mark.parametrize(
        ("commit", "prepared", "completed"),
        [(True, "PrepareCommit", "CompleteCommit"), (False, "PrepareAbort", "CompleteAbort")],
    )
    def test_it_is_decided_then_marked_then_complete(
        self, coordinator, commit, prepared, completed
    ):
        owner = coordinator.init()
        coordinator.add(owner, 0, 1)

        reply = coordinator.end(owner, commit=commit)

        assert reply == EndReply()
        assert coordinator.state() == prepared
        [markers] = coordinator.write_markers()
        assert markers.commit is commit
        assert (markers.producer_id, markers.producer_epoch) == (1000, 0)
        assert markers.coordinator_epoch == 3
        assert {partition.partition for partition in markers.partitions} == {0, 1}
        assert coordinator.state() == completed

    def test_a_retry_waits_and_then_succeeds(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)

        assert coordinator.end(owner, commit=True).error is TransactionError.CONCURRENT_TRANSACTIONS
        coordinator.write_markers()
        assert coordinator.end(owner, commit=True).error is TransactionError.NONE

    def test_a_decision_cannot_be_turned_round(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)

        assert coordinator.end(owner, commit=False).error is TransactionError.INVALID_TXN_STATE
        coordinator.write_markers()
        assert coordinator.end(owner, commit=False).error is TransactionError.INVALID_TXN_STATE

    def test_nothing_can_be_ended_before_anything_began(self, coordinator):
        owner = coordinator.init()

        assert coordinator.end(owner, commit=True).error is TransactionError.INVALID_TXN_STATE

    def test_a_zombie_is_fenced(self, coordinator):
        zombie = coordinator.init()
        coordinator.init()

        assert coordinator.end(zombie, commit=True).error is TransactionError.PRODUCER_FENCED

    def test_an_unknown_id_has_no_mapping(self, coordinator):
        owner = InitReply(producer_id=ProducerId(9), producer_epoch=ProducerEpoch(0))

        reply = coordinator.end(owner, commit=True)

        assert reply.error is TransactionError.INVALID_PRODUCER_ID_MAPPING


class TestEndWithEpochBump:
    """EndTxn version 5 (KIP-890 part 2)."""

    def test_the_end_hands_out_the_next_epoch(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0, version=V2)

        reply = coordinator.end(owner, commit=True, version=V2)

        assert (reply.producer_id, reply.producer_epoch) == (1000, 1)
        [markers] = coordinator.write_markers()
        assert markers.producer_epoch == 1

    def test_the_old_epoch_is_fenced_at_once(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0, version=V2)
        coordinator.end(owner, commit=True, version=V2)

        assert coordinator.add(owner, 1, version=V2) is TransactionError.PRODUCER_FENCED

    @pytest.mark.parametrize("commit", [True, False])
    def test_a_retry_waits_and_then_gets_the_same_answer(self, coordinator, commit):
        owner = coordinator.init()
        coordinator.add(owner, 0, version=V2)
        first = coordinator.end(owner, commit=commit, version=V2)

        early = coordinator.end(owner, commit=commit, version=V2)
        coordinator.write_markers()
        late = coordinator.end(owner, commit=commit, version=V2)

        assert early.error is TransactionError.CONCURRENT_TRANSACTIONS
        assert late == first

    def test_a_retry_is_known_after_a_restart(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0, version=V2)
        first = coordinator.end(owner, commit=True, version=V2)
        coordinator.restart()
        coordinator.write_markers()

        assert coordinator.end(owner, commit=True, version=V2) == first

    def test_an_abort_cannot_turn_a_commit_round(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0, version=V2)
        coordinator.end(owner, commit=True, version=V2)

        early = coordinator.end(owner, commit=False, version=V2)
        coordinator.write_markers()
        late = coordinator.end(owner, commit=False, version=V2)

        assert early.error is TransactionError.INVALID_TXN_STATE
        assert late.error is TransactionError.INVALID_TXN_STATE

    def test_nothing_can_be_aborted_again_and_again(self, coordinator):
        owner = coordinator.init()

        first = coordinator.end(owner, commit=False, version=V2)
        second = coordinator.end(first, commit=False, version=V2)

        assert [first.producer_epoch, second.producer_epoch] == [1, 2]
        assert coordinator.state() == "CompleteAbort"
        assert coordinator.markers == []

    @pytest.mark.parametrize("ended_before", [False, True])
    def test_nothing_cannot_be_committed(self, coordinator, ended_before):
        owner = coordinator.init()
        if ended_before:
            owner = coordinator.end(owner, commit=False, version=V2)

        reply = coordinator.end(owner, commit=True, version=V2)

        assert reply.error is TransactionError.INVALID_TXN_STATE

    def test_the_epoch_below_an_open_transaction_is_a_zombies(self, coordinator):
        zombie = coordinator.init()
        owner = coordinator.init()
        coordinator.add(owner, 0, version=V2)

        reply = coordinator.end(zombie, commit=True, version=V2)

        assert reply.error is TransactionError.PRODUCER_FENCED

    def test_the_end_keeps_the_time_of_the_beginning(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0, version=V2)
        began_ms = coordinator.now_ms
        coordinator.now_ms += 5

        next_owner = coordinator.end(owner, commit=True, version=V2)
        coordinator.write_markers()

        assert coordinator.registry.metadata("pay").start_ms == began_ms
        coordinator.now_ms += 5
        coordinator.end(next_owner, commit=False, version=V2)
        assert coordinator.registry.metadata("pay").start_ms == began_ms + 10, "it begins and ends"

    def test_the_epoch_below_an_empty_id_is_a_zombies(self, coordinator):
        zombie = coordinator.init()
        coordinator.init()

        reply = coordinator.end(zombie, commit=False, version=V2)

        assert reply.error is TransactionError.PRODUCER_FENCED

    def test_the_epoch_below_a_classic_commit_is_a_zombies(self, coordinator):
        zombie = coordinator.init()
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)
        coordinator.write_markers()

        reply = coordinator.end(zombie, commit=True, version=V2)

        assert reply.error is TransactionError.PRODUCER_FENCED

    def test_the_last_epoch_ends_with_a_new_producer_id(self, coordinator):
        owner = at_epoch(coordinator, 32766)
        coordinator.add(owner, 0, version=V2)

        reply = coordinator.end(owner, commit=True, version=V2)
        early = coordinator.end(owner, commit=True, version=V2)
        [markers] = coordinator.write_markers()
        late = coordinator.end(owner, commit=True, version=V2)

        assert (reply.producer_id, reply.producer_epoch) == (1001, 0)
        assert early.error is TransactionError.CONCURRENT_TRANSACTIONS
        assert (markers.producer_id, markers.producer_epoch) == (1000, 32767)
        assert late == reply
        assert coordinator.registry.metadata("pay").next_producer_id == NO_PRODUCER_ID
        assert coordinator.add(reply, 0, version=V2) is TransactionError.NONE

    def test_the_epoch_kept_for_fencing_is_never_handed_out(self, coordinator):
        zombie = at_epoch(coordinator, 32766)
        coordinator.add(zombie, 0, version=V2)
        coordinator.init()
        coordinator.write_markers()

        reply = coordinator.end(zombie, commit=False, version=V2)

        assert reply.error is TransactionError.PRODUCER_FENCED
        assert coordinator.init() == InitReply(
            producer_id=ProducerId(1001), producer_epoch=ProducerEpoch(0)
        )

    def test_aborting_what_timed_out_lets_the_producer_go_on(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0, version=V2)
        coordinator.tick(1000)
        coordinator.write_markers()

        reply = coordinator.end(owner, commit=False, version=V2)

        assert reply.error is TransactionError.NONE
        assert coordinator.add(reply, 0, version=V2) is TransactionError.NONE

    @pytest.mark.parametrize("by_timeout", [True, False])
    def test_a_commit_of_what_the_coordinator_aborted_finds_its_producer_fenced(
        self, coordinator, by_timeout
    ):
        """Not INVALID_TXN_STATE, after which an application stops: it did nothing wrong."""
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0, version=V2)
        if by_timeout:
            coordinator.tick(1000)
        else:
            coordinator.init()

        early = coordinator.end(owner, commit=True, version=V2)
        coordinator.write_markers()
        late = coordinator.end(owner, commit=True, version=V2)

        assert early.error is TransactionError.CONCURRENT_TRANSACTIONS
        assert late.error is TransactionError.PRODUCER_FENCED
        coordinator.init()
        last = coordinator.end(owner, commit=True, version=V2)
        assert last.error is TransactionError.PRODUCER_FENCED

    def test_so_does_one_with_the_last_epoch(self, coordinator):
        owner = at_epoch(coordinator, 32766)
        coordinator.add(owner, 0, version=V2)
        coordinator.init()

        early = coordinator.end(owner, commit=True, version=V2)
        coordinator.write_markers()
        late = coordinator.end(owner, commit=True, version=V2)

        assert early.error is TransactionError.CONCURRENT_TRANSACTIONS
        assert late.error is TransactionError.PRODUCER_FENCED

    def test_so_does_one_whose_abort_brought_a_new_producer_id(self, coordinator):
        owner = at_epoch(coordinator, 32766)
        coordinator.add(owner, 0, version=V2)
        coordinator.end(owner, commit=False, version=V2)
        coordinator.write_markers()

        reply = coordinator.end(owner, commit=True, version=V2)

        assert reply.error is TransactionError.PRODUCER_FENCED


class TestNextTransactionBeforeTheMarkers:
    """EndTxn 5 is answered with the next epoch when it is decided; a marker may take long."""

    def ended(self, coordinator, epoch=0):
        owner = at_epoch(coordinator, epoch)
        coordinator.add(owner, 0, version=V2)
        reply = coordinator.end(owner, commit=True, version=V2)
        assert coordinator.state() == "PrepareCommit"
        return reply

    @pytest.mark.parametrize("epoch", [0, 32766])
    @pytest.mark.parametrize("commit", [True, False])
    def test_its_end_waits_for_them(self, coordinator, epoch, commit):
        following = self.ended(coordinator, epoch)

        early = coordinator.end(following, commit=commit, version=V2)
        coordinator.write_markers()
        late = coordinator.end(following, commit=commit, version=V2)

        assert early.error is TransactionError.CONCURRENT_TRANSACTIONS
        expected = TransactionError.INVALID_TXN_STATE if commit else TransactionError.NONE
        assert late.error is expected

    @pytest.mark.parametrize("epoch", [0, 32766])
    def test_its_partitions_wait_for_them(self, coordinator, epoch):
        following = self.ended(coordinator, epoch)

        early = coordinator.add(following, 0, version=V2)
        coordinator.write_markers()

        assert early is TransactionError.CONCURRENT_TRANSACTIONS
        assert coordinator.add(following, 0, version=V2) is TransactionError.NONE

    @pytest.mark.parametrize("epoch", [0, 32766])
    def test_its_producer_waits_for_them_to_begin_a_new_epoch(self, coordinator, epoch):
        following = self.ended(coordinator, epoch)
        resume = (following.producer_id, following.producer_epoch)

        early = coordinator.init(resume=resume)
        coordinator.write_markers()
        late = coordinator.init(resume=resume)

        assert early.error is TransactionError.CONCURRENT_TRANSACTIONS
        assert (late.producer_id, late.producer_epoch) == (resume[0], resume[1] + 1)

    def test_another_epoch_of_the_next_producer_id_is_not_known(self, coordinator):
        following = replace(self.ended(coordinator, 32766), producer_epoch=ProducerEpoch(1))

        reply = coordinator.end(following, commit=False, version=V2)

        assert reply.error is TransactionError.INVALID_PRODUCER_ID_MAPPING
