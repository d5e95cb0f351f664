"""What an interrupted batch leaves, under each guarantee.

A batch is interrupted as by a crash: its records and its state are written, but Spark has not
committed it. See `tests/driver/test_crash.py` for crashes at any point.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.flow.plan.work import Emit
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.topology import Topology
from testkit.process.broker_process import BrokerProcess
from testkit.sample.topology_fixture import TopologyFixture


class Number(StatefulBolt):
    """Emits each line with how many there were before it."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        before = self.state.get("lines", 0)
        self.state.put("lines", before + batch.num_rows)
        numbers = range(before, before + batch.num_rows)
        emit([batch["value"], numbers], rows=range(batch.num_rows))


def same(batch: pa.RecordBatch, emit: Emit) -> None:
    emit([batch["value"], [0] * batch.num_rows], rows=range(batch.num_rows))


@pytest.fixture
def stage(
    broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path
) -> Iterator[TopologyFixture]:
    yield TopologyFixture(broker.address, spark, topic, tmp_path, outputs=("out",), partitions=1)


def topology(stage: TopologyFixture, guarantee: str, *, stateful: bool) -> Topology:
    made = Topology(stage.name, guarantee=guarantee, dead_letters=None)
    made.spout("lines", stage.lines(per_batch=2))
    bolt = made.bolt("bolt", Number() if stateful else same, output="line STRING, number BIGINT")
    bolt.global_("lines")
    made.sink("out", TopicSink(stage.topic("out"))).shuffle("bolt")
    return made


def cut_off_last_batch(stage: TopologyFixture) -> None:
    done = stage.checkpoint / "commits"
    last = max(int(path.name) for path in done.iterdir() if path.name.isdigit())
    (done / str(last)).unlink()
    (done / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("guarantee", "stateful", "wanted"),
    [
        ("exactly-once", True, ["a", "b", "c", "d", "e", "f"]),
        ("at-least-once", False, ["a", "b", "c", "d", "c", "d", "e", "f"]),
        ("at-most-once", False, ["a", "b", "c", "d", "e", "f"]),
        ("at-most-once", True, ["a", "b", "c", "d", "e", "f"]),
    ],
)
def test_an_interrupted_batch_is_repeated_as_the_guarantee_says(
    stage: TopologyFixture, guarantee: str, stateful: bool, wanted: list[str]
) -> None:
    stage.feed("a", "b", "c", "d")
    stage.run(topology(stage, guarantee, stateful=stateful))
    cut_off_last_batch(stage)
    stage.feed("e", "f")
    stage.run(topology(stage, guarantee, stateful=stateful))

    rows = stage.read("out")
    assert [row["line"] for row in rows] == wanted
    if stateful:
        # At most once does not count what it skips.
        numbers = {"exactly-once": [4, 5], "at-most-once": [2, 3]}[guarantee]
        assert [row["number"] for row in rows][-2:] == numbers
