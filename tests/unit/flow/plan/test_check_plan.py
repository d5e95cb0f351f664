"""Mistakes in a plan, each reported in one sentence."""

import threading

import pytest

from headrace.flow.error import FlowError
from headrace.flow.plan.check_plan import check_plan
from headrace.flow.storm.bolt import Bolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


def topology() -> Topology:
    made = Topology("words")
    made.spout("lines", TopicSpout("lines", brokers="127.0.0.1:1", fields="value STRING"))
    return made


def same(value: str) -> str:
    return value


def test_a_sound_topology_passes() -> None:
    sound = topology()
    sound.bolt("split", same, output="word STRING").shuffle("lines")
    sound.sink("out", TopicSink("out", key="word")).fields("split", "word")

    check_plan(sound.plan())


def test_a_component_that_does_not_exist_is_named_with_the_nearest() -> None:
    wrong = topology()
    wrong.bolt("split", same, output="word STRING").shuffle("line")

    with pytest.raises(FlowError, match=r"split reads from 'line', .* did you mean 'lines'"):
        check_plan(wrong.plan())


def test_an_unknown_field_is_named() -> None:
    wrong = topology()
    wrong.bolt("count", same, output="word STRING").fields("lines", "word")

    with pytest.raises(FlowError, match="names the field 'word', but the stream has value"):
        check_plan(wrong.plan())


def test_a_stream_that_is_not_declared_is_named() -> None:
    wrong = topology()
    wrong.bolt("split", same, output="word STRING").shuffle("lines", stream="late")

    with pytest.raises(FlowError, match="reads the stream 'late' of lines, which declares default"):
        check_plan(wrong.plan())


def test_a_circle_is_reported_with_a_solution() -> None:
    wrong = topology()
    wrong.bolt("a", same, output="x STRING").shuffle("lines").shuffle("b")
    wrong.bolt("b", same, output="x STRING").shuffle("a")

    with pytest.raises(FlowError, match=r"(a, b|b, a) form a circle: .* write to a topic"):
        check_plan(wrong.plan())


def test_a_bolt_that_reads_from_nowhere_is_named() -> None:
    wrong = topology()
    wrong.bolt("split", same, output="word STRING")

    with pytest.raises(FlowError, match="the bolt split reads from nowhere"):
        check_plan(wrong.plan())


def test_without_a_spout_nothing_flows() -> None:
    with pytest.raises(FlowError, match="has no spout"):
        check_plan(Topology("empty").plan())


class Locked(Bolt):
    def __init__(self) -> None:
        self.limits = {"a": 1}
        self.lock = threading.Lock()


def test_what_does_not_pickle_is_named_with_its_attribute() -> None:
    wrong = topology()
    wrong.bolt("guarded", Locked(), output="x STRING").shuffle("lines")

    with pytest.raises(FlowError, match=r"guarded cannot be sent .* attribute bolt\.lock does not"):
        check_plan(wrong.plan())


def test_a_parallelism_below_one_is_refused() -> None:
    wrong = topology()
    wrong.bolt("split", same, output="word STRING", parallelism=0).shuffle("lines")

    with pytest.raises(FlowError, match="a parallelism of 0"):
        check_plan(wrong.plan())
