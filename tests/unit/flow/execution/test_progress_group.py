"""The consumer group that a flow commits its progress to."""

from headrace.flow.execution.progress_group import flow_of, group_of
from headrace.flow.storm.spout import SparkSpout, TopicSpout


def test_a_group_leads_back_to_its_flow() -> None:
    assert flow_of(group_of("page-count")) == "page-count"


def test_a_program_with_the_name_of_a_flow_keeps_its_group() -> None:
    assert group_of("page-count") != "page-count"
    assert flow_of("page-count") is None


def test_a_spout_commits_its_progress_to_the_flows_group() -> None:
    spout = TopicSpout("clicks", brokers="b:1", options={"maxOffsetsPerTrigger": "10"})
    named = spout.in_group("headrace-flow-count")
    assert named.options == {"maxOffsetsPerTrigger": "10", "kafka.group.id": "headrace-flow-count"}
    assert spout.options == {"maxOffsetsPerTrigger": "10"}


def test_a_spout_with_a_group_of_its_own_keeps_it() -> None:
    for options in ({"kafka.group.id": "mine"}, {"groupIdPrefix": "mine"}):
        spout = TopicSpout("clicks", brokers="b:1", options=options)
        assert spout.in_group("headrace-flow-count") is spout


def test_a_spark_spout_has_no_progress_to_commit() -> None:
    spout = SparkSpout(lambda spark, streaming: None, fields="value BIGINT")
    assert spout.in_group("headrace-flow-count") is spout
