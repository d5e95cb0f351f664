"""Changing the number of tasks, as far as a checkpoint allows it."""

import pyarrow as pa
import pytest

from headrace.flow.error import FlowError
from headrace.flow.execution.rebalance import rebalanced
from headrace.flow.plan.plan import Plan
from headrace.flow.plan.work import Emit
from headrace.flow.storm.bolt import Bolt, StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


class Same(Bolt):
    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        emit(batch.columns)


class Kept(StatefulBolt):
    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        emit(batch.columns)


def plan(*bolts: tuple[str, Bolt]) -> Plan:
    made = Topology("words")
    made.spout("lines", TopicSpout("lines", brokers="b:9092", fields="value STRING"))
    for name, bolt in bolts:
        made.bolt(name, bolt, output="value STRING", parallelism=2).fields("lines", "value")
        made.sink(f"{name}-out", TopicSink("out")).shuffle(name)
    return made.plan()


def test_a_bolt_without_state_gets_other_tasks() -> None:
    changed = rebalanced(plan(("same", Same())), {"same": 4}, partitions=8)

    assert changed.components["same"].parallelism == 4
    assert changed.settings["spark.sql.shuffle.partitions"] == "8"


def test_a_bolt_behind_one_with_state_may_change() -> None:
    changed = rebalanced(plan(("kept", Kept()), ("same", Same())), {"same": 4})

    assert changed.components["same"].parallelism == 4


@pytest.mark.parametrize(
    ("bolts", "tasks", "partitions", "why"),
    [
        ([("kept", Kept())], {"kept": 3}, None, "kept keeps state"),
        ([("same", Same()), ("kept", Kept())], {"same": 3}, None, "would move the state of kept"),
        ([("kept", Kept())], {}, 4, "words keeps state"),
        ([("same", Same())], {"smae": 3}, None, "words has no component smae"),
        ([("same", Same())], {"same": 0}, None, "cannot have 0 tasks"),
    ],
)
def test_what_the_checkpoint_does_not_allow_is_refused(
    bolts: list[tuple[str, Bolt]], tasks: dict[str, int], partitions: int | None, why: str
) -> None:
    with pytest.raises(FlowError, match=why):
        rebalanced(plan(*bolts), tasks, partitions)
