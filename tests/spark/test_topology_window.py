"""Windows and ticks on Spark: timers, and tuples that wait in the checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.flow.plan.window import CountWindow, TimeWindow, Window
from headrace.flow.plan.work import Emit
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.topology import Topology
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.sample.topology_fixture import TopologyFixture

WINDOWS = {
    "count-tumbling": CountWindow(3),
    "count-sliding": CountWindow(4, slide=2),
    "time-tumbling": TimeWindow(10, timestamp="at", lag_seconds=2, late="late"),
    "time-sliding": TimeWindow(10, slide_seconds=5, timestamp="at", lag_seconds=2),
    "clock": TimeWindow(0.5),
}
_SECONDS = 240.0


class Show:
    """Emits the names in a window, with that of its bolt."""

    def __init__(self, bolt: str) -> None:
        self.bolt = bolt

    def __call__(self, window: Window, emit: Emit) -> None:
        emit([[self.bolt], [" ".join(window.tuples["name"].to_pylist())]])


class Beat(StatefulBolt):
    """Counts its ticks, and how many tuples it had seen at each."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        self.state.put("seen", self.state.get("seen", 0) + batch.num_rows)

    def tick(self, now_ms: int, emit: Emit) -> None:
        ticks = self.state.get("ticks", 0) + 1
        self.state.put("ticks", ticks)
        emit([["beat"], [f"{ticks} {self.state.get('seen')}"]])


def name_and_time(line: str) -> tuple[str, int]:
    name, at = line.split("@")
    return name, int(at) * 1_000


@pytest.fixture
def stage(
    broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path
) -> TopologyFixture:
    outputs = ("out", "late")
    return TopologyFixture(broker.address, spark, topic, tmp_path, outputs=outputs, partitions=1)


def topology(stage: TopologyFixture) -> Topology:
    made = Topology(stage.name, dead_letters=None)
    made.spout("lines", stage.lines(per_batch=4))
    made.bolt("parse", name_and_time, output="name STRING, at BIGINT").shuffle("lines")
    shown = "bolt STRING, said STRING"
    for name, window in WINDOWS.items():
        late = isinstance(window, TimeWindow) and window.late is not None
        outputs: Any = {"default": shown, **({"late": "name STRING, at BIGINT"} if late else {})}
        made.bolt(name, Show(name), output=outputs, window=window).global_("parse")
        made.sink(f"{name}-out", TopicSink(stage.topic("out"))).shuffle(name)
    made.sink("late", TopicSink(stage.topic("late"))).shuffle("time-tumbling", "late")
    made.bolt("beat", Beat(), output=shown, tick_seconds=0.1).global_("parse")
    made.sink("beat-out", TopicSink(stage.topic("out"))).shuffle("beat")
    return made


@pytest.mark.timeout(600)
def test_windows_close_and_bolts_tick_on_spark_across_a_restart(stage: TopologyFixture) -> None:
    def said(bolt: str) -> list[str]:
        return [row["said"] for row in stage.read("out") if row["bolt"] == bolt]

    def wait_for(query: Any, condition: Callable[[], bool], what: str) -> None:
        wait_until(
            lambda: query.exception() is not None or condition(),
            what=what,
            timeout_seconds=_SECONDS,
        )
        assert query.exception() is None

    def beats_at_end() -> int:
        return len([each for each in said("beat") if each.endswith(" 8")])

    # The first batch takes time on to 13, less the lag: 11. Then d is late, as its second is 4.
    stage.feed("a@1", "c@13", "b@9", "e@11")
    stage.run(topology(stage))  # ends, although there could always be another tick
    assert "a b" in said("time-tumbling")
    stage.feed("d@4", "f@12", "g@24", "h@25")
    query = stage.start(topology(stage))
    try:
        wait_for(query, lambda: "e f c" in said("time-tumbling"), "the second window")
        # No more tuples come, and the clock keeps ticking.
        before = beats_at_end()
        wait_for(query, lambda: beats_at_end() > before + 1, "ticks without tuples")
        wait_for(query, lambda: len(" ".join(said("clock")).split()) == 8, "windows of the clock")
    finally:
        query.stop()

    assert said("count-tumbling") == ["a c b", "e d f"]
    assert said("count-sliding") == ["a c", "a c b e", "b e d f", "d f g h"]
    assert said("time-tumbling") == ["a b", "e f c"]
    assert said("time-sliding") == ["a", "a b", "b e f c", "e f c"]
    assert [row["name"] for row in stage.read("late")] == ["d"]
    assert " ".join(said("clock")).split() == list("acbedfgh")
    ticks = [int(each.split()[0]) for each in said("beat")]
    assert ticks == list(range(1, len(ticks) + 1))
