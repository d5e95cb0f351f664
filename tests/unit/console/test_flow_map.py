"""The map of the cluster: what is drawn, once, and how it is connected."""

from itertools import pairwise
from typing import Any

from headrace.console.flow_map import (
    MOST_GROUPS,
    MOST_PROCESSORS,
    MOST_TOPICS,
    FlowMapInput,
    flow_map,
)
from headrace.console.status.agent_status import AgentPart, AgentStatus
from headrace.console.status.flow_status import FlowNode, FlowStatus
from headrace.lag.report import GroupLag, PartitionLag
from headrace.lag.status import LagStatus
from headrace.model.ids import TopicPartition


def group(name: str, *topics: str, status: LagStatus = LagStatus.OK) -> GroupLag:
    partitions = tuple(PartitionLag(TopicPartition(each, 0), 5, 7, status) for each in topics)
    return GroupLag(name, "Stable", "consumer", 1, status, partitions)


def groups(*all_of_them: GroupLag) -> dict[str, GroupLag]:
    return {each.group: each for each in all_of_them}


def flow(name: str, reads: str, *writes: str) -> FlowStatus:
    sinks = [FlowNode(f"to-{number}", "sink", each) for number, each in enumerate(writes)]
    return FlowStatus(name, "", nodes=(FlowNode("in", "spout", reads), *sinks))


def names(picture: dict[str, Any], kind: str) -> list[str]:
    return sorted(each["name"] for each in picture["nodes"].values() if each["kind"] == kind)


def arrows(picture: dict[str, Any]) -> dict[tuple[str, str], float | None]:
    nodes = picture["nodes"]
    return {
        (nodes[each["path"][0]]["name"], nodes[each["path"][-1]]["name"]): each["rate"]
        for each in picture["arrows"]
    }


def test_producers_write_topics_without_a_known_writer() -> None:
    picture = flow_map(
        FlowMapInput(
            {"clicks": 10.0}, groups(group("billing", "clicks")), read={("billing", "clicks"): 9.0}
        )
    )
    assert arrows(picture) == {("producers", "clicks"): 10.0, ("clicks", "billing"): 9.0}
    assert [len(each) for each in picture["layers"]] == [1, 1, 1]


def test_a_flow_stands_between_its_topics_and_its_group_is_not_drawn_again() -> None:
    own = group("headrace-flow-count", "clicks", status=LagStatus.WARN)
    picture = flow_map(
        FlowMapInput(
            {"clicks": 10.0, "counts": 2.0},
            groups(own),
            flows=(flow("count", "clicks", "counts"),),
            read={("headrace-flow-count", "clicks"): 9.0},
        )
    )
    assert names(picture, "group") == []
    assert arrows(picture) == {
        ("producers", "clicks"): 10.0,
        ("clicks", "count"): 9.0,
        ("count", "counts"): 2.0,
    }
    (drawn,) = (each for each in picture["nodes"].values() if each["kind"] == "flow")
    assert (drawn["note"], drawn["status"]) == ("flow · lag 2", "WARN")


def test_a_query_without_a_name_is_known_by_what_it_reads() -> None:
    unnamed = group("spark-kafka-source-clicks", "clicks")
    picture = flow_map(
        FlowMapInput(
            {"clicks": 1.0}, groups(unnamed), flows=(flow("lake", "clicks", "/data/lake"),)
        )
    )
    assert (names(picture, "group"), names(picture, "sink")) == ([], ["lake"])


def test_a_flow_that_runs_elsewhere_is_known_by_its_group() -> None:
    picture = flow_map(
        FlowMapInput({"clicks": 1.0}, groups(group("headrace-flow-count", "clicks")))
    )
    assert (names(picture, "flow"), names(picture, "group")) == (["count"], [])


def test_internal_topics_and_groups_are_not_drawn() -> None:
    picture = flow_map(
        FlowMapInput(
            {"clicks": 1.0, "__consumer_offsets": 9.0, "headrace-agent-positions": 9.0},
            groups(group("headrace-sink-count-1f", "clicks")),
        )
    )
    assert (names(picture, "topic"), names(picture, "group")) == (["clicks"], [])


def test_an_agent_writes_topics_and_places_and_its_groups_are_its_own() -> None:
    agent = AgentStatus(
        "mover",
        "",
        parts=(
            AgentPart("source", "old", {}, "kafka", ("c",), ("clicks",), "flume"),
            AgentPart("sink", "copy", {}, "kafka", ("c",), ("copies",)),
            AgentPart("sink", "lake", {}, "hdfs", ("c",), place="hdfs://lake/clicks"),
            AgentPart("sink", "log", {}, "logger", ("c",)),
        ),
    )
    picture = flow_map(
        FlowMapInput(
            {"clicks": 4.0, "copies": 3.0},
            groups(group("flume", "clicks")),
            agents=(agent,),
            read={("flume", "clicks"): 3.5},
            written={("agent", "mover", "sink lake"): 2.5},
        )
    )
    assert arrows(picture) == {
        ("producers", "clicks"): 4.0,
        ("clicks", "mover"): 3.5,
        ("mover", "copies"): 3.0,
        ("mover", "clicks"): 2.5,
    }
    assert (names(picture, "sink"), names(picture, "group")) == (["clicks"], [])


def test_two_writers_of_a_topic_have_rates_of_their_own() -> None:
    both = (flow("one", "clicks", "alerts"), flow("two", "clicks", "alerts"))
    picture = flow_map(
        FlowMapInput(
            {"clicks": 1.0, "alerts": 3.0},
            flows=both,
            written={("flow", "one", "to-0"): 2.0, ("flow", "two", "to-0"): 1.0},
        )
    )
    found = arrows(picture)
    assert (found["one", "alerts"], found["two", "alerts"]) == (2.0, 1.0)


def test_a_chain_of_flows_lies_in_as_many_layers() -> None:
    chain = (flow("first", "a", "b"), flow("second", "b", "c"))
    picture = flow_map(FlowMapInput({"a": 3.0, "b": 2.0, "c": 1.0}, flows=chain))
    assert [len(each) for each in picture["layers"]] == [1, 1, 1, 1, 1, 1]


def test_a_flow_that_writes_what_it_reads_can_be_drawn() -> None:
    picture = flow_map(FlowMapInput({"a": 3.0}, flows=(flow("loop", "a", "a"),)))
    assert arrows(picture) == {("a", "loop"): None}


def test_the_map_is_bounded_and_says_what_it_leaves_out() -> None:
    topics = {f"t{number:03}": float(number) for number in range(200)}
    picture = flow_map(
        FlowMapInput(
            topics,
            groups(*(group(f"g{number}", *topics) for number in range(50))),
            flows=tuple(flow(f"f{number}", f"t{number:03}", "/lake") for number in range(60)),
        )
    )
    assert len(names(picture, "topic")) == MOST_TOPICS
    assert len(names(picture, "group")) == MOST_GROUPS
    assert len(names(picture, "flow")) <= MOST_PROCESSORS
    assert picture["more"] == {"topics": 188, "flows": 50, "groups": 40}


def test_the_demo_is_drawn_without_a_crossing_that_could_be_spared() -> None:
    demo = (
        flow("page-count", "page-views", "page-counts"),
        flow("access-log", "access-log", "page-minutes", "alerts"),
        flow("countries", "page-views, profiles", "country-views"),
        flow("land-page-views", "page-views", "/tmp/parquet"),
    )
    names_of = (
        *("page-views", "searches", "impressions", "profiles", "access-log"),
        *("page-counts", "page-minutes", "alerts", "country-views"),
    )
    agent = AgentStatus("site", "", parts=(AgentPart("sink", "k", {}, topics=("access-log",)),))
    readers = ("search-index", "ad-billing", "mailer", "recommender", "archive")
    picture = flow_map(
        FlowMapInput(
            dict.fromkeys(names_of, 1.0),
            groups(*(group(each, "searches", "impressions") for each in readers)),
            flows=demo,
            agents=(agent,),
        )
    )
    places = {each: row for layer in picture["layers"] for row, each in enumerate(layer)}
    depth = {each: x for x, layer in enumerate(picture["layers"]) for each in layer}
    steps = [step for each in picture["arrows"] for step in pairwise(each["path"])]
    crossings = sum(
        (places[a] - places[c]) * (places[b] - places[d]) < 0
        for number, (a, b) in enumerate(steps)
        for c, d in steps[:number]
        if depth[a] == depth[c]
    )
    # Five groups that read the same two topics cross each other ten times, however they lie.
    assert crossings == 10
