"""Spouts written in Python, on a real Spark session and a real broker."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.flow.execution.failure import failure_of
from headrace.flow.plan.work import TaskContext
from headrace.flow.storm import PythonSpout, TopicSink, Topology
from headrace.flow.storm.python_spout import SpoutEmit
from headrace.spark.data_source import HeadraceDataSource
from testkit.process.broker_process import BrokerProcess
from testkit.sample.topology_fixture import TopologyFixture


class Lines(PythonSpout):
    """Emits the lines of a file that were not acked, and keeps a diary of its calls."""

    fields = "line STRING"
    max_pending = 3

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, context: TaskContext) -> None:
        acked = {each["id"] for each in diary(self.folder) if each["call"] == "ack"}
        lines = (self.folder / "lines").read_text().split()
        self.waiting = [each for each in enumerate(lines) if each[0] not in acked]
        self.note("open", context.component)

    def next_tuple(self, emit: SpoutEmit) -> None:
        if self.waiting:
            number, line = self.waiting.pop(0)
            emit((7,) if line == "broken" else (line,), message_id=number)

    def ack(self, message_id: Any) -> None:
        self.note("ack", message_id)

    def fail(self, message_id: Any) -> None:
        self.note("fail", message_id)

    def activate(self) -> None:
        self.note("activate")

    def deactivate(self) -> None:
        self.note("deactivate")

    def close(self) -> None:
        self.note("close")

    def note(self, call: str, number: Any = None) -> None:
        with (self.folder / "diary").open("a") as file:
            file.write(json.dumps({"call": call, "id": number}) + "\n")


def diary(folder: Path) -> list[dict[str, Any]]:
    path = folder / "diary"
    return [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []


def calls(folder: Path, call: str) -> list[Any]:
    return [each["id"] for each in diary(folder) if each["call"] == call]


class Shout:
    """Raises for a line while there is a file of its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, line: str) -> str:
        if (self.folder / line).exists():
            raise ValueError(f"no {line} today")
        return line.upper()


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(HeadraceDataSource)


@pytest.fixture
def stage(
    broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path
) -> TopologyFixture:
    return TopologyFixture(broker.address, spark, topic, tmp_path, outputs=("out",))


def shouting(stage: TopologyFixture, folder: Path) -> Topology:
    """Lines of a Python spout and of a topic, in one topology."""
    made = Topology(stage.name, dead_letters=None, retries=0)
    made.spout("file", Lines(folder), parallelism=2)
    made.spout("topic", stage.lines())
    both = made.bolt("shout", Shout(folder), output="value STRING")
    both.shuffle("file").shuffle("topic")
    made.sink("out", TopicSink(stage.topic("out"))).shuffle("shout")
    return made


@pytest.mark.timeout(1800)
def test_tuples_are_acked_by_the_commit_and_emitted_again_after_a_failure(
    stage: TopologyFixture, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("a b c d e")
    (tmp_path / "e").touch()
    stage.feed("from-topic")

    with pytest.raises(StreamingQueryException, match="no e today"):
        stage.run(shouting(stage, tmp_path))
    written = [each["value"] for each in stage.read("out")]
    assert sorted(written) == ["A", "B", "C", "FROM-TOPIC"]
    assert calls(tmp_path, "ack") == [0, 1, 2]

    (tmp_path / "e").unlink()
    stage.run(shouting(stage, tmp_path))

    assert calls(tmp_path, "fail") == [3, 4]
    assert sorted(set(calls(tmp_path, "ack"))) == [0, 1, 2, 3, 4]
    again = sorted(each["value"] for each in stage.read("out"))
    assert again == ["A", "B", "C", "D", "E", "FROM-TOPIC"]
    first = [each["call"] for each in diary(tmp_path)][:2]
    assert first == ["open", "activate"]
    assert calls(tmp_path, "open") == ["file", "file"]

    (tmp_path / "lines").write_text("a b c d e broken")
    with pytest.raises(StreamingQueryException) as broken:
        stage.run(shouting(stage, tmp_path))
    failure = failure_of(broken.value)
    assert "the spout file declares 'line STRING' and emitted (7,)" in failure.why
    assert sorted(each["value"] for each in stage.read("out")) == again
    print(diary(tmp_path))
