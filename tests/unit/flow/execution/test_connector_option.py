"""The options of a plan's sources and of its sink."""

from typing import Any

import pytest

from headrace.flow.drpc.function import FunctionTopology
from headrace.flow.execution.connector_option import (
    replay_may_differ,
    sink_options,
    with_source_options,
)
from headrace.flow.plan.client_option import with_login
from headrace.flow.plan.plan import Plan
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


def copying(options: dict[str, str] | None = None, **more: Any) -> Topology:
    made = Topology("copy", **more)
    made.spout(
        "in", TopicSpout("in", brokers="b:9092", fields="value STRING", options=options or {})
    )
    made.sink("out", TopicSink("out", value="value")).shuffle("in")
    return made


def source(plan: Plan, spout: str = "in") -> dict[str, str]:
    options: dict[str, str] = with_source_options(plan).components[spout].work.options
    return options


def test_every_batch_has_a_cap() -> None:
    assert source(copying().plan()) == {"maxOffsetsPerTrigger": "1000000"}


def test_settings_change_the_cap_of_every_spout() -> None:
    plan = copying(settings={"source.maxOffsetsPerTrigger": "50"}).plan()

    assert source(plan) == {"maxOffsetsPerTrigger": "50"}


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "maxoffsetspertrigger"])
def test_an_option_of_the_spout_goes_first(name: str) -> None:
    plan = copying({name: "7"}, settings={"source.maxOffsetsPerTrigger": "50"}).plan()

    assert source(plan) == {name: "7"}


def test_a_minimum_has_no_default_cap_below_it() -> None:
    assert source(copying({"minOffsetsPerTrigger": "2000000"}).plan()) == {
        "minOffsetsPerTrigger": "2000000"
    }


def test_a_spout_is_not_changed_by_its_run() -> None:
    plan = copying().plan()
    with_source_options(plan)

    assert plan.components["in"].work.options == {}


def test_real_time_has_no_batches_to_cap() -> None:
    plan = copying(latency="realtime", guarantee="at-least-once").plan()

    assert source(plan) == {}


def test_a_function_has_the_options_of_a_topology() -> None:
    settings = {"sink.kafka.transaction.timeout.ms": "900000", "source.minPartitions": "4"}
    plan = FunctionTopology("exclaim", brokers="b:9092", settings=settings).plan()

    assert source(plan, "drpc") == {"minPartitions": "4", "maxOffsetsPerTrigger": "1000000"}
    assert sink_options(plan)["kafka.transaction.timeout.ms"] == "900000"


def test_a_plan_with_dead_letters_may_replay_a_batch_otherwise() -> None:
    assert sink_options(copying().plan()) == {"replayMayDiffer": "true"}
    assert sink_options(copying(dead_letters=None).plan()) == {}


def test_a_user_can_have_replays_checked_all_the_same() -> None:
    plan = copying(settings={"sink.replayMayDiffer": "false"}).plan()

    assert sink_options(plan) == {"replayMayDiffer": "false"}


def test_figures_and_partial_keys_may_differ_too() -> None:
    counted = copying(dead_letters=None, settings={"metrics.topic": "metrics"})
    spread = copying(dead_letters=None)
    spread.bolt("upper", str.upper, output="value STRING").partial_key("in", "value")

    assert replay_may_differ(counted.plan())
    assert replay_may_differ(spread.plan())


def test_an_option_of_the_sources_keeps_the_login_of_the_plan() -> None:
    settings = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.username": "anna",
        "kafka.sasl.password": "x",
        "kafka.sasl.mechanism": "PLAIN",
        "source.kafka.ssl.endpoint.identification.algorithm": "none",
    }
    options = source(with_login(copying(settings=settings).plan()))

    assert options["kafka.sasl.username"] == "anna"
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.ssl.endpoint.identification.algorithm"] == "none"
