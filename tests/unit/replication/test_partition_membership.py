"""Replicas that come and go, proposals, lag, and min.insync.replicas, as the leader counts them."""

import pytest

from headrace.model.error import InvalidArgument
from headrace.replication.partition_state import PartitionState

LAG_MS = 50


def leader(isr=(1,), log_end=0, high_watermark=0, replicas=(), min_insync=1, now_ms=0):
    return PartitionState(
        broker_id=1,
        leader_epoch=5,
        isr=isr,
        replicas=replicas,
        partition_epoch=3,
        log_end=log_end,
        high_watermark=high_watermark,
        min_insync=min_insync,
        now_ms=now_ms,
    )


class TestReplicas:
    def test_a_replica_that_left_is_forgotten(self):
        state = leader(replicas=(1, 2, 3), log_end=10)
        state.follower_fetched(3, 7, leader_epoch=5, broker_epoch=30)

        state.set_replicas((1, 2), now_ms=100)

        assert state.replicas == {1, 2}
        assert state.follower_end(3) == -1
        assert state.broker_epoch(3) == -1
        assert state.follower_end(2) == -1

    def test_what_a_replica_that_stays_has_fetched_stays(self):
        state = leader(replicas=(1, 2, 3), log_end=10)
        state.follower_fetched(2, 7, leader_epoch=5, broker_epoch=20)

        state.set_replicas((1, 2, 4), now_ms=100)

        assert state.follower_end(2) == 7
        assert state.broker_epoch(2) == 20

    def test_a_new_replica_joins_when_it_has_everything(self):
        state = leader(replicas=(1, 2), log_end=10)
        state.set_replicas((1, 2, 4), now_ms=100)
        assert state.expanded(4) == {1}

        state.follower_fetched(4, 10, leader_epoch=5, now_ms=110)

        assert state.expanded(4) == {1, 4}

    def test_a_leader_that_is_to_leave_counts_itself_until_it_does(self):
        state = leader(isr=(1, 2), replicas=(1, 2), log_end=10)

        state.set_replicas((2, 3), now_ms=100)

        assert state.replicas == {1, 2, 3}

    def test_an_in_sync_replica_that_left_the_set_holds_the_high_watermark_back(self):
        state = leader(isr=(1, 2), replicas=(1, 2), log_end=10)

        state.set_replicas((1, 3), now_ms=100)

        assert state.replicas == {1, 2, 3}
        assert state.high_watermark == 0
        assert state.follower_fetched(2, 10, leader_epoch=5)

    def test_fewer_replicas_may_be_enough_for_min_insync(self):
        state = leader(isr=(1,), replicas=(1, 2), log_end=10, min_insync=2)
        assert state.high_watermark == 0
        assert not state.alone

        state.set_replicas((1,), now_ms=100)

        assert state.alone
        assert state.high_watermark == 10

    def test_a_member_of_the_isr_is_a_replica_even_if_no_one_said_so(self):
        state = leader(isr=(1,), replicas=(1,), log_end=10)
        assert state.high_watermark == 10

        assert not state.set_isr((1, 2))

        assert state.replicas == {1, 2}
        assert not state.appended(12)
        assert state.late(LAG_MS, LAG_MS) == set()
        assert state.late(LAG_MS + 1, LAG_MS) == {2}

    def test_one_that_was_out_of_sync_has_no_time_to_catch_up_when_it_is_named_in_sync(self):
        state = leader(isr=(1,), replicas=(1, 2), log_end=10)
        state.set_replicas((1, 2, 3), now_ms=30)

        state.set_isr((1, 2, 3))

        assert state.late(30, LAG_MS) == {2, 3}
        assert state.broker_epoch(2) == -1

    def test_unknown_replicas_have_fetched_nothing(self):
        state = leader()

        assert state.follower_end(9) == -1
        assert state.broker_epoch(9) == -1
        assert state.expanded(9) == {1}


class TestPartitionEpoch:
    def test_it_is_what_the_state_said_last(self):
        state = leader(isr=(1, 2))
        assert state.partition_epoch == 3

        state.set_isr((1,))
        assert state.partition_epoch == 3

        state.set_isr((1, 2), 4)
        assert state.partition_epoch == 4


class TestProposal:
    def test_both_sets_count_while_it_is_under_way(self):
        state = leader(isr=(1, 2), replicas=(1, 2, 3), log_end=10)
        state.follower_fetched(3, 6, leader_epoch=5)

        state.propose((1, 2, 3))
        state.follower_fetched(2, 10, leader_epoch=5)

        assert state.proposed == {1, 2, 3}
        assert state.high_watermark == 6

    def test_a_smaller_one_does_not_let_the_high_watermark_go_on(self):
        state = leader(isr=(1, 2), replicas=(1, 2), log_end=10)

        state.propose((1,))

        assert not state.alone
        assert not state.appended(11)
        assert state.high_watermark == 0

    def test_a_larger_one_ends_being_alone(self):
        state = leader(isr=(1,), replicas=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5)
        assert state.alone

        state.propose((1, 2))

        assert not state.alone
        assert not state.appended(11)

    def test_withdrawn_it_counts_no_longer(self):
        state = leader(isr=(1,), replicas=(1, 2), log_end=10)
        state.propose((1, 2))
        state.appended(11)
        assert state.high_watermark == 10

        state.withdraw()

        assert state.proposed is None
        assert state.alone
        assert state.high_watermark == 11

    def test_the_state_of_the_cluster_ends_it(self):
        state = leader(isr=(1,), replicas=(1, 2), log_end=10)
        state.propose((1, 2))
        state.appended(11)

        assert state.set_isr((1,))

        assert state.proposed is None
        assert state.high_watermark == 11

    def test_a_replica_that_left_meanwhile_counts_until_the_state_ends_it(self):
        state = leader(isr=(1,), replicas=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5)
        state.propose((1, 2))
        state.appended(11)

        state.set_replicas((1,), now_ms=100)
        assert state.high_watermark == 10

        assert state.set_isr((1,))
        assert state.high_watermark == 11
        assert state.replicas == {1}


class TestMinInsync:
    def test_with_too_few_in_sync_the_high_watermark_stands_still(self):
        state = leader(isr=(1,), replicas=(1, 2, 3), log_end=10, min_insync=2)

        assert not state.alone
        assert not state.appended(11)
        assert state.high_watermark == 0

    def test_a_change_moves_it_or_does_not(self):
        state = leader(isr=(1,), replicas=(1, 2, 3), log_end=10, min_insync=2)

        assert not state.set_min_insync(3)
        assert state.set_min_insync(1)
        assert state.high_watermark == 10
        assert not state.set_min_insync(2)
        assert not state.appended(11)

    def test_enough_and_one_more_are_enough(self):
        assert leader(isr=(1, 2), replicas=(1, 2, 3)).has_enough(2)
        assert leader(isr=(1, 2, 3), replicas=(1, 2, 3)).has_enough(2)
        assert not leader(isr=(1, 2), replicas=(1, 2, 3)).has_enough(3)


class TestLag:
    def test_a_follower_at_the_end_is_not_late_however_long_ago(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5, now_ms=100)

        assert state.late(10_000, LAG_MS) == set()

    def test_one_behind_is_late_when_the_time_is_over_and_not_before(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5, now_ms=100)
        state.appended(11)

        assert state.late(100 + LAG_MS, LAG_MS) == set()
        assert state.late(101 + LAG_MS, LAG_MS) == {2}

    def test_its_time_begins_when_this_broker_began_to_lead(self):
        state = leader(isr=(1, 2), log_end=10, now_ms=1000)

        assert state.late(1000 + LAG_MS, LAG_MS) == set()
        assert state.late(1001 + LAG_MS, LAG_MS) == {2}

    def test_one_that_reaches_what_was_the_end_at_its_last_fetch_was_caught_up_then(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 5, leader_epoch=5, now_ms=100)
        state.appended(20)
        state.follower_fetched(2, 10, leader_epoch=5, now_ms=140)

        assert state.late(100 + LAG_MS, LAG_MS) == set()
        assert state.late(101 + LAG_MS, LAG_MS) == {2}

    def test_one_that_never_reaches_it_is_late_though_it_fetches(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 5, leader_epoch=5, now_ms=100)
        state.appended(20)
        state.follower_fetched(2, 9, leader_epoch=5, now_ms=140)

        assert state.late(LAG_MS, LAG_MS) == set()
        assert state.late(LAG_MS + 1, LAG_MS) == {2}

    def test_being_at_the_end_counts_more_than_the_fetch_before(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5, now_ms=100)
        state.follower_fetched(2, 10, leader_epoch=5, now_ms=140)
        state.appended(11)

        assert state.late(140 + LAG_MS, LAG_MS) == set()

    def test_a_replica_out_of_sync_is_not_late(self):
        state = leader(isr=(1,), replicas=(1, 2), log_end=10)

        assert state.late(10_000, LAG_MS) == set()

    def test_silence_begins_after_the_time_and_not_at_it(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5, now_ms=100)

        assert not state.followers_are_silent(100 + LAG_MS, LAG_MS)
        assert state.followers_are_silent(101 + LAG_MS, LAG_MS)


class TestHighWatermark:
    def test_the_same_log_end_moves_nothing(self):
        state = leader(log_end=7)

        assert not state.appended(7)
        assert state.log_end == 7

    def test_a_follower_beyond_this_log_counts_only_as_far_as_the_log_goes(self):
        state = leader(isr=(1, 2), log_end=10)

        assert state.follower_fetched(2, 12, leader_epoch=5)
        assert state.follower_end(2) == 10

    def test_the_leader_does_not_follow_itself(self):
        state = leader(isr=(1, 2), log_end=10)

        assert not state.follower_fetched(1, 10, leader_epoch=5)
        assert state.follower_end(1) == -1

    def test_it_reports_once_that_it_moved(self):
        state = leader(isr=(1, 2), log_end=10)

        assert state.follower_fetched(2, 10, leader_epoch=5)
        assert not state.follower_fetched(2, 10, leader_epoch=5)
        assert state.is_committed(10)
        assert not state.is_committed(11)

    def test_an_append_with_a_follower_behind_moves_nothing(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5)

        assert not state.appended(12)
        assert state.log_end == 12

    def test_a_follower_behind_the_start_of_this_leader_does_not_join(self):
        state = leader(isr=(1, 2), replicas=(1, 2, 3), log_end=10, high_watermark=4)
        state.follower_fetched(3, 9, leader_epoch=5)
        assert state.expanded(3) == {1, 2}

        state.follower_fetched(3, 10, leader_epoch=5)
        assert state.expanded(3) == {1, 2, 3}

    def test_it_is_never_negative(self):
        with pytest.raises(InvalidArgument):
            leader(log_end=3, high_watermark=-1)
