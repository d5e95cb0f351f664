"""The high watermark: alone, and with followers."""

import pytest

from headrace.model.error import InvalidArgument
from headrace.replication.partition_state import PartitionState


def leader(isr=(1,), log_end=0, high_watermark=0):
    return PartitionState(
        broker_id=1, leader_epoch=5, isr=isr, log_end=log_end, high_watermark=high_watermark
    )


class TestAlone:
    def test_the_high_watermark_is_the_log_end(self):
        state = leader(log_end=7)

        assert state.high_watermark == 7
        assert state.appended(9)
        assert state.high_watermark == 9
        assert state.is_committed(9)

    def test_it_is_enough_for_one_in_sync_replica(self):
        state = leader(isr=(1, 2))
        state.set_isr((1,))

        assert state.has_enough(1)
        assert not state.has_enough(2)

    def test_the_only_replica_is_enough_whatever_min_insync_replicas_asks_for(self):
        assert leader().has_enough(2)

    def test_a_log_does_not_shrink_under_its_leader(self):
        with pytest.raises(InvalidArgument, match="cannot shrink"):
            leader(log_end=7).appended(6)

    def test_a_high_watermark_lies_in_the_log(self):
        with pytest.raises(InvalidArgument):
            leader(log_end=3, high_watermark=4)


class TestWithFollowers:
    def test_the_slowest_in_sync_replica_holds_it_back(self):
        state = leader(isr=(1, 2, 3), log_end=10)
        state.follower_fetched(2, 8, leader_epoch=5)

        assert state.high_watermark == 0
        assert state.follower_fetched(3, 6, leader_epoch=5)
        assert state.high_watermark == 6

    def test_a_replica_that_is_not_in_sync_does_not(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(3, 2, leader_epoch=5)

        state.follower_fetched(2, 10, leader_epoch=5)

        assert state.high_watermark == 10

    def test_a_word_of_another_epoch_does_not_count(self):
        state = leader(isr=(1, 2), log_end=10)

        assert not state.follower_fetched(2, 10, leader_epoch=4)
        assert state.high_watermark == 0

    def test_it_never_goes_back(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5)

        assert not state.follower_fetched(2, 3, leader_epoch=5)
        assert state.high_watermark == 10

    def test_a_smaller_isr_lets_it_go_on(self):
        state = leader(isr=(1, 2), log_end=10)

        assert state.set_isr(state.shrunk({2}))
        assert state.high_watermark == 10

    def test_a_follower_joins_when_it_has_what_is_committed(self):
        state = leader(isr=(1,), log_end=10)
        state.follower_fetched(2, 9, leader_epoch=5)
        assert state.expanded(2) == {1}

        state.follower_fetched(2, 10, leader_epoch=5)

        assert state.expanded(2) == {1, 2}

    def test_the_leader_stays_in_sync(self):
        assert leader(isr=(1, 2)).shrunk({1, 2}) == {1}
        with pytest.raises(InvalidArgument, match="leads and is not among"):
            leader().set_isr({2})


class TestCutOff:
    def test_followers_are_silent_though_none_is_behind(self):
        state = leader(isr=(1, 2), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5, now_ms=100)

        assert not state.followers_are_silent(150, 60)
        assert state.followers_are_silent(200, 60)
        assert not state.late(200, 60)

    def test_one_that_fetches_is_enough_not_to_be(self):
        state = leader(isr=(1, 2, 3), log_end=10)
        state.follower_fetched(2, 10, leader_epoch=5, now_ms=100)
        state.follower_fetched(3, 10, leader_epoch=5, now_ms=200)

        assert not state.followers_are_silent(220, 60)

    def test_the_only_replica_has_no_silent_followers(self):
        assert not leader(isr=(1,), log_end=10).followers_are_silent(1000, 60)


class TestLowWatermark:
    def test_it_is_the_lowest_log_start_among_running_replicas(self):
        state = leader(isr=(1, 2, 3), log_end=10)

        assert state.low_watermark(5, {1, 2, 3}) == -1
        assert state.set_follower_log_start(2, 5)
        assert not state.set_follower_log_start(2, 5)
        state.set_follower_log_start(3, 3)

        assert state.low_watermark(5, {1, 2, 3}) == 3
        assert state.low_watermark(5, {1, 2}) == 5
        assert state.low_watermark(5, set()) == 5
        state.set_follower_log_start(3, 8)
        assert state.low_watermark(5, {1, 2, 3}) == 5

    def test_a_replica_that_left_is_not_waited_for(self):
        state = leader(log_end=10)
        state.set_replicas((1, 2), 0)
        assert state.low_watermark(5, {1, 2}) == -1

        state.set_replicas((1,), 0)

        assert state.low_watermark(5, {1, 2}) == 5


def test_the_high_watermark_of_a_new_leader_lags_until_it_is_where_the_leader_began():
    state = leader(isr=(1, 2), log_end=10, high_watermark=7)

    assert state.high_watermark_lags
    state.follower_fetched(2, 9, 5)
    assert state.high_watermark_lags
    state.follower_fetched(2, 10, 5)
    state.appended(12)
    assert not state.high_watermark_lags
