"""How a plan is cut into stages."""

from headrace.flow.plan.stage import StageLayout, stage_layout
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


def same(value: str) -> str:
    return value


def topology() -> Topology:
    made = Topology("words")
    made.spout("lines", TopicSpout("lines", brokers="127.0.0.1:1", fields="value STRING"))
    return made


def stages(layout: StageLayout) -> list[tuple[str, ...]]:
    return [each.components for each in layout.stages]


def test_a_chain_without_state_is_one_stage() -> None:
    chain = topology()
    chain.bolt("a", same, output="x STRING").shuffle("lines")
    chain.bolt("b", same, output="x STRING").local_or_shuffle("a")
    chain.sink("out", TopicSink("out")).none("b")

    assert stages(stage_layout(chain.plan())) == [("lines", "a", "b", "out")]


def test_a_fields_grouping_begins_a_stage() -> None:
    chain = topology()
    chain.bolt("a", same, output="x STRING").fields("lines", "value")
    chain.sink("out", TopicSink("out")).shuffle("a")

    layout = stage_layout(chain.plan())

    assert stages(layout) == [("lines",), ("a", "out")]
    assert [edge.carried for edge in layout.edges] == [True, False]


def test_a_bolt_with_state_begins_a_stage_whatever_its_grouping() -> None:
    chain = topology()
    chain.bolt("a", StatefulBolt(), output="x STRING").shuffle("lines")

    layout = stage_layout(chain.plan())

    assert stages(layout) == [("lines",), ("a",)]
    assert [each.stateful for each in layout.stages] == [False, True]


def test_a_bolt_with_two_feeders_waits_for_the_later_one() -> None:
    diamond = topology()
    diamond.bolt("a", same, output="x STRING").fields("lines", "value")
    diamond.bolt("b", same, output="x STRING").shuffle("lines").shuffle("a")

    layout = stage_layout(diamond.plan())

    assert stages(layout) == [("lines",), ("a", "b")]
    assert {
        (edge.input.component, edge.carried) for edge in layout.edges if edge.reader == "b"
    } == {
        ("lines", True),
        ("a", False),
    }


def test_slots_follow_the_declaration_so_that_a_longer_plan_keeps_them() -> None:
    short = topology()
    short.bolt("a", same, output="x STRING", parallelism=3).fields("lines", "value")
    before = stage_layout(short.plan()).slots
    short.bolt("b", same, output="x STRING", parallelism=2).fields("lines", "value")

    slots = stage_layout(short.plan()).slots

    assert slots == {"a": range(3), "b": range(3, 5)}
    assert before["a"] == slots["a"]
