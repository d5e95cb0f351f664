"""Waiting for moves of replicas, and for brokers that are away."""

from collections.abc import Sequence

import pytest

from headrace.client.address import Address
from headrace.client.admin.move_wait import MissingBroker, MoveWait, missing_brokers
from headrace.client.admin.replica_admin import Move
from headrace.client.error import ClientError
from headrace.client.network.metadata import (
    BrokerMetadata,
    Metadata,
    PartitionMetadata,
    TopicMetadata,
)
from headrace.model.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
TO_TWO = {ORDERS: Move((2, 1), (2,), (1,))}


def metadata(brokers: Sequence[int], leader: int = 1) -> Metadata:
    partition = PartitionMetadata(0, leader, 0, (2, 1), (1,), (), None)
    return Metadata(
        cluster_id="c",
        controller=1,
        brokers={each: BrokerMetadata(each, Address("h", each), None) for each in brokers},
        topics={"orders": TopicMetadata("orders", None, False, {0: partition}, None)},
    )


class Cluster:
    """A cluster whose time passes by sleeping: what it says, second by second."""

    def __init__(self, running: Sequence[Sequence[int]], done_after: int, leader: int = 1) -> None:
        self._running = running
        self._leader = leader
        self._done_after = done_after
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += 1.0

    def moves(self) -> dict[TopicPartition, Move]:
        return {} if self.now >= self._done_after else TO_TWO

    def metadata(self) -> Metadata:
        running = self._running[min(int(self.now), len(self._running) - 1)]
        return metadata(running, self._leader)

    def wait(self, **limits: float) -> None:
        MoveWait(self, clock=self.clock, sleep=self.sleep, **limits).run()


def test_it_returns_when_the_moves_are_done_however_long_that_takes() -> None:
    cluster = Cluster([[1, 2]], done_after=3_000)

    cluster.wait()

    assert cluster.now == 3_000


def test_a_broker_that_stays_away_ends_the_wait_with_what_to_do() -> None:
    cluster = Cluster([[1, 2], [1]], done_after=1000)

    with pytest.raises(ClientError) as raised:
        cluster.wait(away_seconds=60)

    assert cluster.now == 61
    assert "broker 2 has not been running for 60 s" in str(raised.value)
    assert "1 moves wait for it (orders-0)" in str(raised.value)
    assert "decommission 2" in str(raised.value)


@pytest.mark.parametrize("running", [[2], []])
def test_the_broker_with_the_records_of_a_leaderless_partition_is_to_be_started(
    running: list[int],
) -> None:
    cluster = Cluster([running], done_after=1000, leader=-1)

    with pytest.raises(ClientError) as raised:
        cluster.wait(away_seconds=60)

    assert "no leader (orders-0), and their records are on broker 1" in str(raised.value)
    assert "start broker 1" in str(raised.value)
    assert "decommission" not in str(raised.value)


def test_a_broker_that_restarts_again_and_again_is_waited_for() -> None:
    cluster = Cluster([[1], [1, 2]] * 50, done_after=90)

    cluster.wait(away_seconds=3)

    assert cluster.now == 90


def test_the_limit_ends_the_wait_although_the_moves_go_on() -> None:
    cluster = Cluster([[1, 2]], done_after=1000)

    with pytest.raises(ClientError, match=r"still under way after 20 s \(orders-0\)"):
        cluster.wait(limit_seconds=20)


def test_only_brokers_that_a_move_needs_are_missing() -> None:
    assert missing_brokers(TO_TWO, metadata([1, 2])) == {}
    # The one that is left needs no one, as long as another broker leads.
    assert missing_brokers(TO_TWO, metadata([2], leader=2)) == {}
    assert missing_brokers(TO_TWO, metadata([1])) == {2: MissingBroker(adding=[ORDERS])}
    without_leader = missing_brokers(TO_TWO, metadata([2], leader=-1))
    assert without_leader == {1: MissingBroker(leaderless=[ORDERS])}
    assert missing_brokers(TO_TWO, metadata([], leader=-1)) == {
        1: MissingBroker(leaderless=[ORDERS]),
        2: MissingBroker(adding=[ORDERS]),
    }
