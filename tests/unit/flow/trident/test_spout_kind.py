"""The kinds of spouts, and the states that suit them."""

from pathlib import Path
from typing import Any

import pytest

from headrace.flow.error import FlowError
from headrace.flow.storm.spout import SparkSpout, Spout, TopicSpout
from headrace.flow.trident.spout_kind import SpoutKind, with_kind
from headrace.flow.trident.sqlite_state import SqliteState
from headrace.flow.trident.state import State, StateFactory
from headrace.flow.trident.topic_state import TopicState
from headrace.flow.trident.topology import TridentTopology


def topic_spout(**options: str) -> TopicSpout:
    return TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING", options=options)


def spark_spout() -> SparkSpout:
    return SparkSpout(lambda spark, streaming: spark, fields="value STRING")


class Replaying(SparkSpout):
    """A spout that emits again what failed, in another batch."""

    replayable = False


def plan(spout: Spout, mode: str, folder: Path, kind: Any = None, **settings: str) -> Any:
    topology = TridentTopology("t", settings={k.replace("__", "."): v for k, v in settings.items()})
    values = topology.new_stream("values", spout, kind=kind)
    state = SqliteState(folder / "s.db", "counts", mode=mode)
    values.group_by("value").persistent_aggregate(state, n="count")
    return topology.plan()


@pytest.mark.parametrize(
    ("spout", "kind"),
    [
        (topic_spout(), SpoutKind.TRANSACTIONAL),
        (topic_spout(failondataloss="False"), SpoutKind.OPAQUE),
        (spark_spout(), SpoutKind.OPAQUE),
        (Replaying(lambda spark, streaming: spark, fields="v STRING"), SpoutKind.NON_TRANSACTIONAL),
    ],
)
def test_a_spout_has_a_kind_of_its_own(spout: Spout, kind: SpoutKind) -> None:
    assert with_kind(spout, None, {})[1] is kind


@pytest.mark.parametrize(
    ("kind", "suited"),
    [
        ("transactional", ["non-transactional", "transactional", "opaque"]),
        ("opaque", ["non-transactional", "opaque"]),
        ("non-transactional", ["non-transactional"]),
    ],
)
@pytest.mark.parametrize("mode", ["non-transactional", "transactional", "opaque"])
def test_a_state_must_not_promise_more_than_its_spout(
    tmp_path: Path, kind: str, suited: list[str], mode: str
) -> None:
    if mode in suited:
        plan(topic_spout(), mode, tmp_path, kind)
        return
    with pytest.raises(FlowError) as caught:
        plan(topic_spout(), mode, tmp_path, kind)
    assert f"is {mode}, but the spout values is {kind}" in str(caught.value)
    assert str(caught.value).endswith("mode=" + " or ".join(map(repr, suited)))


def test_all_spouts_of_a_merged_stream_count(tmp_path: Path) -> None:
    topology = TridentTopology("t")
    both = topology.merge(
        topology.new_stream("one", topic_spout()), topology.new_stream("two", spark_spout())
    )
    state = SqliteState(tmp_path / "s.db", "counts", mode="transactional")
    both.group_by("value").persistent_aggregate(state, n="count")

    with pytest.raises(FlowError, match="the spout two is opaque"):
        topology.plan()


def test_an_opaque_topic_spout_goes_on_without_records_that_are_gone(tmp_path: Path) -> None:
    made = plan(topic_spout(), "opaque", tmp_path, "opaque")
    assert made.components["values"].work.options == {"failOnDataLoss": "false"}


def test_settings_of_a_run_cannot_change_the_spout_of_a_transactional_state(tmp_path: Path) -> None:
    made = plan(topic_spout(), "transactional", tmp_path)
    assert made.components["values"].work.options == {"failOnDataLoss": "true"}
    with pytest.raises(FlowError, match="the spout values is opaque"):
        plan(topic_spout(), "transactional", tmp_path, source__failOnDataLoss="false")


def test_a_state_of_ones_own_may_name_its_mode_as_a_text() -> None:
    class Ledger(StateFactory):
        mode = "transactional"  # type: ignore[assignment]

        def make_state(self, task: int, tasks: int) -> State:
            return State()

    topology = TridentTopology("t")
    values = topology.new_stream("values", spark_spout())
    values.partition_persist(Ledger(), lambda state, tuples, collector: None)

    with pytest.raises(FlowError, match="is transactional, but the spout values is opaque"):
        topology.plan()


def test_a_query_of_a_state_promises_nothing(tmp_path: Path) -> None:
    topology = TridentTopology("t")
    state = SqliteState(tmp_path / "s.db", "counts", mode="transactional")
    totals = topology.new_stream("values", topic_spout()).group_by("value")
    kept = totals.persistent_aggregate(state, n="count")
    asks = topology.new_stream("asks", spark_spout())
    asks.state_query(kept, "value").to_topic("out")

    topology.plan()


def test_sparks_own_state_takes_any_spout() -> None:
    topology = TridentTopology("t")
    values = topology.new_stream("values", topic_spout(), kind="non-transactional")
    values.group_by("value").persistent_aggregate(TopicState("counts"), n="count")

    topology.plan()


@pytest.mark.parametrize(
    ("spout", "kind", "words"),
    [
        (topic_spout(), "exactly", "write non-transactional, transactional, opaque"),
        (topic_spout(failOnDataLoss="false"), "transactional", "leave the option out"),
        (
            Replaying(lambda spark, streaming: spark, fields="v STRING"),
            "opaque",
            "a tuple may be in two batches",
        ),
    ],
)
def test_a_kind_that_a_spout_cannot_be_is_refused(spout: Spout, kind: str, words: str) -> None:
    with pytest.raises(FlowError, match=words):
        TridentTopology("t").new_stream("values", spout, kind=kind)
