"""What the registry keeps back, tries again, forgets and finds again after a restart."""

import pytest

from headrace.model.error import CorruptLog, InvalidArgument
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.effect import NOTHING, TransactionEffects
from headrace.transactions.error import TransactionError
from headrace.transactions.listing import ListingFilter
from headrace.transactions.message import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    InitReply,
)

DAY_MS = 24 * 60 * 60 * 1000
INIT = InitProducerId(transactional_id="pay", timeout_ms=60_000)


def add_event(owner, number=0):
    return AddPartitions(
        transactional_id="pay",
        producer_id=owner.producer_id,
        producer_epoch=owner.producer_epoch,
        partitions=frozenset({TopicPartition("orders", number)}),
    )


def end_event(owner, *, commit=True):
    return EndTransaction(
        transactional_id="pay",
        producer_id=owner.producer_id,
        producer_epoch=owner.producer_epoch,
        commit=commit,
    )


class TestAppend:
    def test_nothing_is_known_until_the_record_is_in_the_log(self, coordinator):
        registry = coordinator.registry

        effects = registry.init_producer_id("t", INIT, 0)

        assert registry.metadata("pay") is None
        registry.adopt(effects, 0)
        assert registry.metadata("pay").producer_epoch == 0

    def test_the_reply_carries_the_token_of_its_request(self, coordinator):
        effects = coordinator.registry.init_producer_id("token", INIT, 0)

        assert [reply.token for reply in effects.replies] == ["token"]

    def test_a_second_request_waits_for_the_first_append(self, coordinator):
        registry = coordinator.registry
        registry.init_producer_id("first", INIT, 0)

        second = registry.init_producer_id("second", INIT, 0)

        assert second.records == ()
        assert second.replies[0].answer.error is TransactionError.CONCURRENT_TRANSACTIONS

    def test_a_failed_first_append_leaves_no_trace(self, coordinator):
        registry = coordinator.registry
        effects = registry.init_producer_id("t", INIT, 0)

        failed = registry.reject(effects, 0)

        assert failed.replies[0].token == "t"
        assert failed.replies[0].answer == InitReply(
            error=TransactionError.COORDINATOR_NOT_AVAILABLE
        )
        assert len(registry) == 0

    def test_a_failed_append_changes_nothing(self, coordinator):
        owner = coordinator.init()
        before = coordinator.registry.metadata("pay")
        effects = coordinator.registry.add_partitions("t", add_event(owner), 0)

        coordinator.registry.reject(effects, 0)

        assert coordinator.registry.metadata("pay") == before
        assert coordinator.add(owner, 0) is TransactionError.NONE

    def test_a_failed_fencing_does_not_use_up_epochs(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        effects = coordinator.registry.init_producer_id("t", INIT, coordinator.now_ms)
        coordinator.registry.reject(effects, coordinator.now_ms)

        coordinator.init()

        assert coordinator.registry.metadata("pay").producer_epoch == 1

    def test_effects_are_settled_once(self, coordinator):
        effects = coordinator.registry.init_producer_id("t", INIT, 0)
        coordinator.registry.adopt(effects, 0)

        with pytest.raises(InvalidArgument, match="exactly once"):
            coordinator.registry.adopt(effects, 0)

    def test_effects_of_nobody_cannot_be_settled(self, coordinator):
        with pytest.raises(InvalidArgument):
            coordinator.registry.adopt(TransactionEffects(transactional_id="who"), 0)


class TestMarkers:
    def test_the_last_marker_completes_the_transaction(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0, 1)
        coordinator.end(owner, commit=True)
        [markers] = coordinator.markers
        first, second = sorted(markers.partitions)

        coordinator.carry_out(coordinator.registry.markers_written(markers, [first], 0))
        assert coordinator.state() == "PrepareCommit"
        assert coordinator.registry.describe("pay").partitions == {second}

        coordinator.carry_out(coordinator.registry.markers_written(markers, [second], 0))
        assert coordinator.state() == "CompleteCommit"

    def test_only_missing_markers_are_asked_for_again(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0, 1)
        coordinator.end(owner, commit=True)
        [markers] = coordinator.markers
        coordinator.markers.clear()
        first, second = sorted(markers.partitions)
        coordinator.registry.markers_written(markers, [first], coordinator.now_ms)
        coordinator.registry.markers_failed(markers, coordinator.now_ms)

        coordinator.tick(99)
        assert coordinator.markers == []
        coordinator.tick(1)

        assert [again.partitions for again in coordinator.markers] == [{second}]
        coordinator.tick(1_000)
        assert len(coordinator.markers) == 1, "the second request is under way"

    def test_a_complete_record_that_failed_is_tried_again(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)
        [markers] = coordinator.markers
        now_ms = coordinator.now_ms
        effects = coordinator.registry.markers_written(markers, markers.partitions, now_ms)
        coordinator.registry.reject(effects, now_ms)

        assert coordinator.registry.next_deadline_ms() == now_ms + 100
        coordinator.tick(100)

        assert coordinator.state() == "CompleteCommit"

    def test_late_acknowledgements_of_an_older_end_do_not_count(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)
        [late] = coordinator.write_markers()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)

        coordinator.carry_out(coordinator.registry.markers_written(late, late.partitions, 0))

        assert coordinator.state() == "PrepareCommit"

    def test_markers_under_way_are_not_asked_for_again(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)

        coordinator.tick(30_000)

        assert len(coordinator.markers) == 1
        assert coordinator.registry.next_deadline_ms() > coordinator.now_ms + 60_000

    def test_markers_of_an_id_that_is_gone_do_not_matter(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)
        [markers] = coordinator.markers
        coordinator.registry.load([], coordinator.now_ms)

        assert coordinator.registry.markers_written(markers, markers.partitions, 0) is NOTHING
        coordinator.registry.markers_failed(markers, 0)

    def test_markers_that_failed_late_do_not_matter(self, coordinator):
        """They were sent twice, and the others completed the transaction."""
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)
        [late] = coordinator.write_markers()
        coordinator.registry.markers_failed(late, coordinator.now_ms)

        assert coordinator.registry.next_deadline_ms() > coordinator.now_ms + 60_000


class TestTime:
    def test_a_change_that_failed_and_then_worked_leaves_no_deadline(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        failed = coordinator.registry.add_partitions("t", add_event(owner, 1), coordinator.now_ms)
        coordinator.registry.reject(failed, coordinator.now_ms)
        coordinator.add(owner, 1)

        assert coordinator.registry.next_deadline_ms() == coordinator.now_ms + 60_000

    def test_a_change_that_failed_leaves_the_timeout(self, coordinator):
        owner = coordinator.init(timeout_ms=1_000)
        coordinator.add(owner, 0)
        failed = coordinator.registry.add_partitions("t", add_event(owner, 1), coordinator.now_ms)
        coordinator.registry.reject(failed, coordinator.now_ms)
        began_ms = coordinator.now_ms

        coordinator.tick(100)
        assert coordinator.registry.next_deadline_ms() == began_ms + 1_000
        coordinator.tick(900)

        assert coordinator.state() == "PrepareAbort"

    def test_a_change_that_failed_does_not_put_the_timeout_off(self, coordinator):
        owner = coordinator.init(timeout_ms=1_000)
        coordinator.add(owner, 0)
        failed = coordinator.registry.add_partitions("t", add_event(owner, 1), coordinator.now_ms)
        coordinator.registry.reject(failed, coordinator.now_ms)

        coordinator.tick(1_000)

        assert coordinator.state() == "PrepareAbort"

    def test_a_timeout_waits_for_the_append_under_way(self, coordinator):
        owner = coordinator.init(timeout_ms=1_000)
        coordinator.add(owner, 0)
        coordinator.registry.end_transaction("t", end_event(owner), coordinator.now_ms)

        assert coordinator.registry.tick(coordinator.now_ms + 1_000) == []

    def test_after_a_sweep_the_next_one_is_an_hour_away(self, coordinator):
        coordinator.tick(60 * 60 * 1000)

        assert coordinator.registry.next_deadline_ms() == coordinator.now_ms + 60 * 60 * 1000

    def test_an_id_expires_after_its_last_transaction(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)
        coordinator.write_markers()

        coordinator.tick(7 * DAY_MS)
        assert coordinator.state() is None
        coordinator.tick(60 * 60 * 1000)

        assert len(coordinator.registry) == 0

    def test_a_transaction_that_takes_too_long_is_aborted(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)

        coordinator.tick(999)
        assert coordinator.state() == "Ongoing"
        coordinator.tick(1)

        assert coordinator.state() == "PrepareAbort"
        [markers] = coordinator.write_markers()
        assert (markers.commit, markers.producer_epoch) == (False, 1)
        assert coordinator.end(owner, commit=True).error is TransactionError.PRODUCER_FENCED

    def test_the_timer_knows_the_next_deadline(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)

        assert coordinator.registry.next_deadline_ms() == coordinator.now_ms + 1000

    def test_an_append_under_way_is_not_a_deadline(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)
        coordinator.registry.end_transaction("t", end_event(owner), coordinator.now_ms)

        assert coordinator.registry.next_deadline_ms() > coordinator.now_ms + 1000

    def test_an_unused_id_expires_after_a_week(self, coordinator):
        coordinator.init()

        coordinator.tick(7 * DAY_MS - 1)
        assert coordinator.state() == "Empty"
        coordinator.tick(60 * 60 * 1000)

        assert coordinator.state() is None
        assert coordinator.log[-1][1] is None

    def test_an_open_transaction_does_not_expire(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)

        coordinator.tick(8 * DAY_MS)

        assert coordinator.state() == "PrepareAbort"

    def test_an_expired_id_starts_again_with_a_new_producer_id(self, coordinator):
        coordinator.init()
        coordinator.tick(8 * DAY_MS)

        reply = coordinator.init()

        assert (reply.producer_id, reply.producer_epoch) == (1001, 0)


class TestWallClock:
    """It may be set while transactions are open; only records and loading go by it."""

    @pytest.mark.parametrize("skew_ms", [DAY_MS, -DAY_MS])
    def test_setting_it_aborts_nothing_and_puts_nothing_off(self, coordinator, skew_ms):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)
        coordinator.wall_minus_monotonic_ms = skew_ms

        coordinator.tick(999)
        assert coordinator.state() == "Ongoing"
        assert coordinator.registry.next_deadline_ms() == coordinator.now_ms + 1
        coordinator.tick(1)

        assert coordinator.state() == "PrepareAbort"

    def test_more_partitions_do_not_put_the_timeout_off(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)
        coordinator.tick(600)
        coordinator.add(owner, 1)

        coordinator.tick(400)

        assert coordinator.state() == "PrepareAbort"

    def test_the_second_transaction_has_its_whole_timeout(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)
        coordinator.end(owner, commit=True)
        coordinator.write_markers()
        coordinator.tick(5000)
        coordinator.add(owner, 0)

        coordinator.tick(999)
        assert coordinator.state() == "Ongoing"
        coordinator.tick(1)

        assert coordinator.state() == "PrepareAbort"

    def test_records_have_its_time(self, coordinator):
        coordinator.wall_minus_monotonic_ms = DAY_MS
        owner = coordinator.init()
        coordinator.add(owner, 0)

        metadata = coordinator.registry.metadata("pay")
        assert metadata.start_ms == coordinator.now_ms + DAY_MS
        assert metadata.last_update_ms == coordinator.now_ms + DAY_MS

    @pytest.mark.parametrize(
        ("skew_ms", "left_ms"), [(0, 1000), (400, 600), (-DAY_MS, 1000), (DAY_MS, 0)]
    )
    def test_after_a_restart_the_rest_of_the_timeout_counts_by_it(
        self, coordinator, skew_ms, left_ms
    ):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)
        coordinator.wall_minus_monotonic_ms = skew_ms
        coordinator.restart()

        if left_ms:
            coordinator.tick(left_ms - 1)
            assert coordinator.state() == "Ongoing"
        coordinator.tick(1)

        assert coordinator.state() == "PrepareAbort"

    def test_unused_ids_expire_by_it(self, coordinator):
        coordinator.init()
        coordinator.wall_minus_monotonic_ms = 7 * DAY_MS

        coordinator.tick(60 * 60 * 1000)

        assert coordinator.state() is None


class TestFence:
    """A change that aborts an open transaction names it, for the operator's log."""

    def test_a_timeout_names_what_it_aborts(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)
        open_one = coordinator.registry.metadata("pay")

        [effects] = coordinator.registry.tick(coordinator.now_ms + 1000)

        assert (effects.fenced, effects.replies) == (open_one, ())

    def test_a_producer_that_takes_over_names_what_it_aborts(self, coordinator):
        coordinator.add(coordinator.init(), 0)
        open_one = coordinator.registry.metadata("pay")

        effects = coordinator.registry.init_producer_id("t", INIT, coordinator.now_ms)

        assert effects.fenced == open_one

    def test_other_changes_fence_no_one(self, coordinator):
        owner = coordinator.init()
        added = coordinator.registry.add_partitions("t", add_event(owner), coordinator.now_ms)
        coordinator.carry_out(added)
        ended = coordinator.registry.end_transaction("t", end_event(owner), coordinator.now_ms)

        assert [added.fenced, ended.fenced] == [None, None]


class TestRestart:
    def test_the_epoch_is_remembered(self, coordinator):
        coordinator.init()
        coordinator.restart()

        assert coordinator.init().producer_epoch == 1

    @pytest.mark.parametrize("commit", [True, False])
    def test_a_decision_is_carried_out(self, coordinator, commit):
        owner = coordinator.init()
        coordinator.add(owner, 0, 1)
        coordinator.end(owner, commit=commit)

        coordinator.restart()

        [markers] = coordinator.write_markers()
        assert markers.commit is commit
        assert {partition.partition for partition in markers.partitions} == {0, 1}
        assert coordinator.state() == ("CompleteCommit" if commit else "CompleteAbort")

    def test_an_open_transaction_still_times_out(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 0)
        coordinator.restart()

        coordinator.tick(1000)

        assert coordinator.state() == "PrepareAbort"

    def test_loading_again_forgets_what_was_there(self, coordinator):
        owner = coordinator.init()
        coordinator.add(owner, 0)

        assert coordinator.registry.load([], coordinator.now_ms) == []

        assert len(coordinator.registry) == 0
        assert coordinator.registry.tick(coordinator.now_ms + 60_000) == []

    def test_a_snapshot_is_what_a_restart_finds(self, coordinator):
        owner = coordinator.init()
        coordinator.init(resume=(owner.producer_id, owner.producer_epoch))
        coordinator.registry.init_producer_id(
            "t", InitProducerId(transactional_id="new", timeout_ms=1), 0
        )

        before = coordinator.registry.snapshot()
        coordinator.restart()

        assert list(before) == ["pay"], "an append under way may fail"
        assert coordinator.registry.snapshot() == before

    def test_a_damaged_record_is_not_skipped(self, coordinator):
        with pytest.raises(CorruptLog):
            coordinator.registry.load([(b"\x00\x00\x00\x03pay", b"\x00\x01")], 0)


class TestQuestions:
    def test_an_id_is_described(self, coordinator):
        owner = coordinator.init(timeout_ms=1000)
        coordinator.add(owner, 4)

        described = coordinator.registry.describe("pay")

        assert described.state == "Ongoing"
        assert described.producer_id == ProducerId(1000)
        assert described.producer_epoch == ProducerEpoch(0)
        assert described.timeout_ms == 1000
        assert described.start_ms == coordinator.now_ms
        assert described.partitions == {TopicPartition("orders", 4)}

    def test_an_unknown_id_is_not_found(self, coordinator):
        answer = coordinator.registry.describe("who")

        assert answer is TransactionError.TRANSACTIONAL_ID_NOT_FOUND

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            (ListingFilter(), ["pay", "ship"]),
            (ListingFilter(states=frozenset({"Ongoing"})), ["pay"]),
            (ListingFilter(producer_ids=frozenset({1001})), ["ship"]),
            (ListingFilter(matches=lambda name: name.startswith("s")), ["ship"]),
            (ListingFilter(states=frozenset({"Ongoing"}), longer_than_ms=0), []),
        ],
    )
    def test_ids_are_listed_by_what_is_asked(self, coordinator, wanted, found):
        owner = coordinator.init("pay")
        coordinator.init("ship")
        coordinator.add(owner, 0)

        listed = coordinator.registry.list_transactions(wanted, coordinator.now_ms)

        assert [line.transactional_id for line in listed] == found

    @pytest.mark.parametrize(("age_ms", "found"), [(5, []), (6, ["pay"])])
    def test_long_transactions_are_listed(self, coordinator, age_ms, found):
        coordinator.add(coordinator.init(), 0)
        now_ms = coordinator.now_ms + age_ms

        listed = coordinator.registry.list_transactions(ListingFilter(longer_than_ms=5), now_ms)

        assert [line.transactional_id for line in listed] == found

    def test_without_a_filter_a_clock_that_went_back_hides_nothing(self, coordinator):
        coordinator.add(coordinator.init(), 0)

        listed = coordinator.registry.list_transactions(ListingFilter(), coordinator.now_ms - 9)

        assert len(listed) == 1

    def test_state_names_that_do_not_exist_are_reported(self):
        wanted = ListingFilter(states=frozenset({"Ongoing", "Sleeping"}))

        assert wanted.unknown_states == {"Sleeping"}
