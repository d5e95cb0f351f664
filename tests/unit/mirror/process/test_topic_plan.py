"""Which topics a flow copies."""

from uuid import UUID

from headrace.client.network.metadata import Metadata, PartitionMetadata, TopicMetadata
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.process.topic_plan import TopicPlan, synced_configs

IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def flow(source: str = "us", target: str = "eu", **texts: str) -> FlowSettings:
    keys = {name.replace("_", "."): text for name, text in texts.items()}
    return FlowSettings.of(source, target, {"enabled": "true"} | keys)


def cluster(**topics: int) -> Metadata:
    def topic(name: str, count: int) -> TopicMetadata:
        partitions = {
            index: PartitionMetadata(index, 1, 0, (1,), (1,), (), None) for index in range(count)
        }
        return TopicMetadata(name, UUID(int=hash(name) % 2**64), False, partitions, None)

    names = {name.replace("__", ".").replace("DASH", "-"): n for name, n in topics.items()}
    return Metadata("id", 1, {}, {name: topic(name, n) for name, n in names.items()})


def names(plan: TopicPlan) -> dict[str, str]:
    return {each.name: each.remote_name for each in plan.topics}


def test_topics_are_copied_with_the_alias_of_their_source() -> None:
    plan = TopicPlan.of(flow(), cluster(clicks=2, orders=1))

    assert names(plan) == {"clicks": "us.clicks", "orders": "us.orders"}
    assert len(dict(plan.pairs())) == 3


def test_what_came_from_the_target_does_not_go_back() -> None:
    source = cluster(clicks=1, eu__clicks=1, asia__eu__clicks=1, asia__clicks=1)

    plan = TopicPlan.of(flow(), source)

    assert names(plan) == {"clicks": "us.clicks", "asia.clicks": "us.asia.clicks"}


def test_heartbeats_are_copied_whatever_the_filter_says_and_internal_topics_never() -> None:
    source = cluster(
        heartbeats=1, asia__heartbeats=1, eu__heartbeats=1, eu__checkpoints__internal=1, other=1
    )

    plan = TopicPlan.of(flow(topics="clicks"), source)

    assert names(plan) == {
        "heartbeats": "us.heartbeats",
        "asia.heartbeats": "us.asia.heartbeats",
    }


def test_topics_with_one_name_are_copied_neither_way_if_both_flows_take_them() -> None:
    there = flow(topics="clicks,orders", **IDENTITY)
    back = flow("eu", "us", topics="clicks", **IDENTITY)

    plan = TopicPlan.of(there, cluster(clicks=1, orders=1), (there, back))

    assert names(plan) == {"orders": "orders"}
    assert plan.loops == ("clicks",)


def test_a_ring_of_three_with_one_name_is_a_loop() -> None:
    ring = [
        flow(one, other, topics=topics, **IDENTITY)
        for one, other, topics in (
            ("us", "eu", "clicks,orders"),
            ("eu", "asia", "clicks,orders"),
            ("asia", "us", "clicks"),
        )
    ]

    plan = TopicPlan.of(ring[0], cluster(clicks=1, orders=1), ring)

    assert names(plan) == {"orders": "orders"}
    assert plan.loops == ("clicks",)


def test_what_is_missing_and_what_has_grown() -> None:
    plan = TopicPlan.of(flow(), cluster(clicks=4, orders=1, views=2))
    target = cluster(us__clicks=2, us__orders=1)

    assert [each.remote_name for each in plan.missing(target)] == ["us.views"]
    assert plan.grown(target) == {"us.clicks": 4}


def test_configurations_that_do_not_travel() -> None:
    configs = {"retention.ms": "1", "min.insync.replicas": "2", "headrace.other.key": "x"}

    assert synced_configs(flow(), configs) == {"retention.ms": "1"}
    assert synced_configs(flow(), configs, {"headrace.other.key"}) == {"headrace.other.key": "x"}


def test_a_table_is_filled_by_one_topic_and_not_by_its_copies() -> None:
    configs = {"retention.ms": "1", "headrace.table.name": "delta:clicks"}

    assert synced_configs(flow(), configs, {*configs}) == {"retention.ms": "1"}
