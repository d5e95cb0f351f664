"""What a broker counts."""

from typing import Any, cast

from headrace.broker.metric import OTHER_TOPICS, BrokerMetrics
from headrace.broker.replica.replica_roles import ReplicaRoles
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.model.ids import BrokerId, LeaderEpoch


def test_the_first_topics_with_traffic_have_series_of_their_own() -> None:
    metrics = BrokerMetrics(max_topics=2)
    for name in ("idle", "orders", "clicks", "late"):
        metrics.topic(name)
    metrics.topic("clicks").bytes_in = 10
    assert set(metrics.traffic().by_topic) == {"clicks"}

    metrics.topic("late").bytes_in = 5
    metrics.topic("orders").bytes_in = 1000
    first = metrics.traffic()

    assert {name: each.bytes_in for name, each in first.by_topic.items()} == {
        "clicks": 10,
        "orders": 1000,
        OTHER_TOPICS: 5,
    }
    assert first.total.bytes_in == 1015


def test_a_deleted_topic_loses_its_series_but_stays_in_the_total() -> None:
    metrics = BrokerMetrics(max_topics=1)
    metrics.topic("old").bytes_in = 7
    metrics.topic("old").records_in = 3
    metrics.traffic()

    metrics.forget_topic("old")
    metrics.topic("old").bytes_in = 1
    after = metrics.traffic()

    assert (after.total.bytes_in, after.total.records_in) == (8, 3)
    assert after.by_topic["old"].bytes_in == 1


def test_errors_are_counted_by_api_and_code() -> None:
    metrics = BrokerMetrics()

    metrics.count_errors("OffsetCommit", {"error_code": 0, "topics": []})
    metrics.count_errors(
        "OffsetCommit",
        {"topics": [{"partitions": [{"error_code": 25}, {"error_code": 0}, {"error_code": 25}]}]},
    )
    metrics.count_errors("Heartbeat", {"error_code": 27})

    assert metrics.errors == {("OffsetCommit", 25): 2, ("Heartbeat", 27): 1}


def test_only_the_first_parts_of_a_large_response_are_looked_at() -> None:
    metrics = BrokerMetrics()

    metrics.count_errors("Metadata", {"topics": [{"error_code": 3}] * 10_000})

    assert metrics.errors == {("Metadata", 3): 64}


class TestElections:
    def counted(self, *partitions: tuple[PartitionRecord, PartitionRecord]) -> tuple[int, int]:
        metrics = BrokerMetrics()
        nothing = cast(Any, None)
        roles = ReplicaRoles(BrokerId(1), nothing, nothing, nothing, nothing, {}, nothing, metrics)
        roles._count_elections(*(record_of(each) for each in zip(*partitions, strict=True)))
        return metrics.leader_elections, metrics.unclean_leader_elections

    def test_one_that_was_in_sync_is_clean(self) -> None:
        assert self.counted((led_by(2, 0, isr=(1, 2)), led_by(1, 1))) == (1, 0)

    def test_one_that_was_not_is_unclean(self) -> None:
        assert self.counted((led_by(-1, 1, isr=(2,)), led_by(1, 2))) == (1, 1)

    def test_what_stays_or_goes_elsewhere_is_not_counted(self) -> None:
        stays = (led_by(1, 3), led_by(1, 3))
        elsewhere = (led_by(1, 3, isr=(1, 2)), led_by(2, 4))

        assert self.counted(stays, elsewhere) == (0, 0)


def led_by(leader: int, epoch: int, isr: tuple[int, ...] | None = None) -> PartitionRecord:
    return PartitionRecord(
        replicas=(BrokerId(1), BrokerId(2)),
        leader=BrokerId(leader),
        isr=tuple(BrokerId(each) for each in ((leader,) if isr is None else isr)),
        leader_epoch=LeaderEpoch(epoch),
    )


def record_of(partitions: tuple[PartitionRecord, ...]) -> TopicRecord:
    return TopicRecord(name="orders", topic_id=random_topic_id(), partitions=partitions)
