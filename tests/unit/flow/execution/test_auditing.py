"""Whether a flow counts for the audit, and under which name."""

import pytest

from headrace.flow.error import FlowError
from headrace.flow.execution.auditing import audit_options, audited
from headrace.flow.plan.plan import Plan
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

NO_BROKER = {"bootstrap.servers": "127.0.0.1:1"}
ON = {"audit": "on", "audit.bucketMs": "10000"}


def plan(*topics: str, **settings: str) -> Plan:
    topology = Topology("words", settings={**ON, **settings})
    for number, topic in enumerate(topics):
        spout = TopicSpout(topic, brokers="127.0.0.1:1", fields="value STRING")
        topology.spout(f"spout-{number}", spout)
        sink = topology.sink(f"sink-{number}", TopicSink("copies"))
        sink.shuffle(f"spout-{number}")
    return topology.plan()


def test_a_flow_is_a_tier_of_its_own_name() -> None:
    assert audit_options("words", ON, NO_BROKER) == {
        "audit.tier": "words",
        "audit.bucketMs": "10000",
        "audit.topic": "headrace.audit",
    }


def test_the_settings_may_name_tier_and_topic() -> None:
    found = audit_options("words", {**ON, "audit.tier": "lake", "audit.topic": "counts"}, NO_BROKER)

    assert (found["audit.tier"], found["audit.topic"]) == ("lake", "counts")


def test_off_is_off() -> None:
    assert audit_options("words", {"audit": "off", "audit.tier": "lake"}, NO_BROKER) == {}


def test_an_unknown_setting_is_reported() -> None:
    with pytest.raises(FlowError, match="write auto, on or off"):
        audit_options("words", {"audit": "maybe"}, NO_BROKER)


def test_every_spout_of_a_plan_counts() -> None:
    found = audited(plan("a", "b"))

    tiers = [each.work.options["audit.tier"] for each in found.components.values() if _spout(each)]
    assert tiers == ["words", "words"]


def test_a_topic_with_two_spouts_is_counted_once() -> None:
    found = audited(plan("a", "a"))

    spouts = [each.work for each in found.components.values() if _spout(each)]
    counting = ["audit.tier" in each.options for each in spouts]
    assert counting == [True, False]


def test_a_plan_that_does_not_count_stays_as_it_is() -> None:
    quiet = plan("a", audit="off")

    assert audited(quiet) == quiet


def _spout(component: object) -> bool:
    return isinstance(getattr(component, "work", None), TopicSpout)
