"""Declaring spouts written in Python."""

from typing import Any

import pytest

from headrace.cli.flow.topic import topics_of
from headrace.flow.error import FlowError
from headrace.flow.execution.connector_option import replay_may_differ, with_source_options
from headrace.flow.plan.check_plan import check_plan
from headrace.flow.plan.client_option import with_login
from headrace.flow.plan.graph import Graph
from headrace.flow.runtime.spout_task import SpoutLimits
from headrace.flow.storm import PythonSpout, TopicSink, Topology
from headrace.flow.storm.python_spout import SpoutEmit, limits_of


class Words(PythonSpout):
    fields = "word STRING"

    def next_tuple(self, emit: SpoutEmit) -> None:
        emit(("a",), message_id=1)


class Nameless(PythonSpout):
    def next_tuple(self, emit: SpoutEmit) -> None:
        emit(("a",))


def limits(spout: PythonSpout, **settings: str) -> SpoutLimits:
    texts = {key.replace("_", "."): text for key, text in settings.items()}
    return limits_of(spout, "words", texts)


def topology(spout: PythonSpout) -> Topology:
    made = Topology("plan", dead_letters=None)
    made.spout("words", spout)
    made.sink("out", TopicSink("out")).shuffle("words")
    return made


def test_a_plan_with_such_a_spout_may_differ_when_a_batch_is_repeated() -> None:
    plan = topology(Words()).plan()
    check_plan(plan)
    assert plan.components["words"].outputs["default"].ddl == "word STRING"
    assert replay_may_differ(plan)


def test_limits_come_from_the_spout_then_from_the_settings() -> None:
    keys = {"topology_max_spout_pending": "50", "topology_message_timeout_secs": "2.5"}
    assert limits(Words()).max_pending == 10_000
    from_settings = limits(Words(), **keys)
    assert (from_settings.max_pending, from_settings.message_timeout_seconds) == (50, 2.5)
    own = Words()
    own.max_pending, own.message_timeout_seconds = 7, 9.0
    both = limits(own, **keys)
    assert (both.max_pending, both.message_timeout_seconds) == (7, 9.0)


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"max_pending": 0}, {}, "max_pending 0"),
        ({"message_timeout_seconds": -1.0}, {}, "message timeout of -1.0 seconds"),
        ({"max_batch_bytes": 1 << 30}, {}, "max_batch_bytes 1073741824: write 1 to 67108864"),
        ({}, {"topology_max_spout_pending": "many"}, "cannot be 'many': write a number"),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    changes: dict[str, Any], settings: dict[str, str], message: str
) -> None:
    spout = Words()
    for name, value in changes.items():
        setattr(spout, name, value)
    with pytest.raises(FlowError, match=message):
        limits(spout, **settings)


def test_a_spout_declares_its_fields() -> None:
    with pytest.raises(FlowError, match="the spout words declares no output fields"):
        check_plan(topology(Nameless()).plan())


def test_a_batch_query_is_refused() -> None:
    work = Words().as_work().bound("plan", "words", parallelism=2, settings={}, failed=())
    with pytest.raises(FlowError, match="the spout words is written in Python and only runs in a"):
        work.staged(None, iter, "word STRING", label="x", streaming=False)


def test_what_a_spout_calls_its_attributes_is_its_own_affair() -> None:
    spout = Words()
    spout.options, spout.topics, spout._place = {"a": "b"}, ["t"], 7  # type: ignore[attr-defined]
    plan = with_source_options(with_login(topology(spout).plan()))
    work = plan.components["words"].work
    assert (work.spout.options, topics_of(plan)) == ({"a": "b"}, ["out"])
    assert Graph.of(plan).node("words").what == "Words"


def test_what_does_not_pickle_belongs_into_open() -> None:
    spout = Words()
    spout.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
    with pytest.raises(FlowError, match=r"make it in open\(\) instead"):
        check_plan(topology(spout).plan())
