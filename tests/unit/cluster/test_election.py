"""Who leads when brokers come and go."""

from dataclasses import replace

from headrace.cluster.election import elect, prefer
from headrace.cluster.topic import NO_LEADER, PartitionRecord

THREE = PartitionRecord(
    replicas=(1, 2, 3), leader=1, isr=(1, 2, 3), leader_epoch=5, partition_epoch=9
)


class TestSettle:
    def test_what_is_right_stays_as_it_is(self):
        assert elect(THREE, {1, 2, 3}, unclean=False) is THREE

    def test_a_follower_that_is_gone_leaves_the_isr_and_the_epoch_stays(self):
        elected = elect(THREE, {1, 3}, unclean=False)

        assert (elected.isr, elected.leader, elected.leader_epoch) == ((1, 3), 1, 5)
        assert elected.partition_epoch == 10

    def test_a_leader_that_is_gone_is_followed_by_the_first_in_sync(self):
        elected = elect(replace(THREE, isr=(1, 3)), {2, 3}, unclean=False)

        assert (elected.leader, elected.leader_epoch, elected.isr) == (3, 6, (3,))

    def test_without_an_in_sync_replica_there_is_no_leader_and_the_isr_stays(self):
        elected = elect(replace(THREE, isr=(1,)), {2, 3}, unclean=False)

        assert (elected.leader, elected.leader_epoch, elected.isr) == (NO_LEADER, 6, (1,))

    def test_a_leaderless_partition_waits_without_new_epochs(self):
        waiting = elect(replace(THREE, isr=(1,)), {2, 3}, unclean=False)

        assert elect(waiting, {3}, unclean=False) is waiting

    def test_the_first_in_sync_to_come_back_leads(self):
        waiting = elect(replace(THREE, isr=(1, 2)), {3}, unclean=False)

        assert elect(waiting, {2, 3}, unclean=False).leader == 2

    def test_unclean_election_takes_anybody_alive(self):
        elected = elect(replace(THREE, isr=(1,)), {2, 3}, unclean=True)

        assert (elected.leader, elected.isr, elected.leader_epoch) == (2, (2,), 6)


class TestPrefer:
    def test_the_first_replica_takes_over_when_it_is_in_sync(self):
        moved = prefer(replace(THREE, leader=2), {1, 2, 3})

        assert (moved.leader, moved.leader_epoch) == (1, 6)

    def test_not_while_it_is_behind(self):
        behind = replace(THREE, leader=2, isr=(2, 3))

        assert prefer(behind, {1, 2, 3}) is behind
