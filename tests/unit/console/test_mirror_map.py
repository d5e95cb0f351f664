"""The map of mirrors: clusters, and lag and age on the arrows between them."""

from typing import Any

from headrace.console.mirror_map import mirror_map
from headrace.console.status.mirror_status import MOST_TOPICS, MirrorCluster, MirrorFlowStatus
from headrace.mirror.process.status import PartitionStatus
from headrace.model.ids import TopicPartition

US = MirrorCluster("us", ("us-1:9092", "us-2:9092"))
EU = MirrorCluster("eu", ("eu-1:9092",))


def partition(
    topic: str, index: int = 0, *, lag: int = 0, age_ms: int | None = None, state: str = "ok"
) -> PartitionStatus:
    return PartitionStatus(
        "us->eu", TopicPartition(topic, index), topic, 0, 100, 100 - lag, age_ms, state
    )


def flow(*partitions: PartitionStatus, problem: str | None = None) -> MirrorFlowStatus:
    return MirrorFlowStatus(US, EU, True, partitions, problem)


def only_arrow(picture: dict[str, Any]) -> dict[str, Any]:
    [arrow] = picture["arrows"]
    return dict(arrow)


def test_clusters_are_boxes_and_the_own_one_is_marked() -> None:
    picture = mirror_map([flow()], [0.0], {"eu-1:9092"})

    assert [(each["name"], each["here"]) for each in picture["nodes"].values()] == [
        ("us", False),
        ("eu", True),
    ]
    assert [len(each) for each in picture["layers"]] == [1, 1]


def test_an_arrow_has_the_lag_of_all_partitions_and_the_greatest_age() -> None:
    behind = (
        partition("clicks", 0, lag=10, age_ms=700, state="behind"),
        partition("clicks", 1, lag=5, age_ms=9000, state="behind"),
        partition("orders"),
    )
    arrow = only_arrow(mirror_map([flow(*behind)], [12.0], ()))

    assert (arrow["lag"], arrow["age_ms"], arrow["rate"]) == (15, 9000, 12.0)
    assert arrow["states"] == ["behind"]
    assert not arrow["trouble"]


def test_flows_both_ways_are_two_arrows() -> None:
    back = MirrorFlowStatus(EU, US, False)
    picture = mirror_map([flow(partition("clicks")), back], [0.0, 0.0], ())

    assert [(each["path"][0], each["path"][-1]) for each in picture["arrows"]] == [
        (US.id, EU.id),
        (EU.id, US.id),
    ]


def test_two_files_with_the_same_clusters_share_an_arrow_and_none_hides_the_other() -> None:
    one, other = flow(partition("clicks", lag=3, state="truncated")), flow(problem="away")
    arrow = only_arrow(mirror_map([one, other], [1.0, 2.0], ()))

    assert (arrow["lag"], arrow["trouble"], arrow["problem"], arrow["rate"]) == (3, True, "away", 3)


def test_clusters_of_the_same_alias_in_two_files_are_two() -> None:
    other = MirrorFlowStatus(MirrorCluster("us", ("test:9092",)), EU, True)
    picture = mirror_map([flow(), other], [0.0, 0.0], ())

    assert sorted(each["note"] for each in picture["nodes"].values()) == [
        "eu-1:9092",
        "test:9092",
        "us-1:9092",
    ]


def test_topics_in_trouble_come_first_then_those_furthest_behind() -> None:
    fields = flow(
        partition("a"),
        partition("b", lag=3, age_ms=1, state="behind"),
        partition("c", lag=9, age_ms=1, state="behind"),
        partition("d", state="diverged"),
    ).as_json(0.0)

    assert [each["topic"] for each in fields["topics"]] == ["d", "c", "b", "a"]


def test_the_list_of_topics_is_bounded() -> None:
    many = [partition(f"topic-{number}") for number in range(MOST_TOPICS + 7)]
    fields = flow(*many).as_json(0.0)

    assert (len(fields["topics"]), fields["more"]) == (MOST_TOPICS, 7)


def test_a_partition_that_the_source_does_not_describe_is_unknown() -> None:
    fields = flow(partition("a", state="unknown: us-1 <b>is</b> away")).as_json(0.0)

    assert fields["states"] == ["unknown"]
