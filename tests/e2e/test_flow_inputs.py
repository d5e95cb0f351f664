"""A flow whose topics are missing says so in one sentence, before Spark starts."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE
from headrace.flow.samza.job import load
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace

STORM = """
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

def topology(brokers: str, topic: str) -> Topology:
    made = Topology("words", dead_letters=None)
    made.spout("lines", TopicSpout(topic, brokers=brokers, fields="value STRING"))
    made.sink("out", TopicSink(topic + "-out", value="value")).shuffle("lines")
    return made
"""
TRIDENT = """
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.trident.topology import TridentTopology

def topology(brokers: str, topic: str) -> TridentTopology:
    made = TridentTopology("words", dead_letters=None)
    spout = TopicSpout(topic, brokers=brokers, fields="value STRING")
    made.new_stream("lines", spout).to_topic(topic + "-out", value="value")
    return made
"""
SAMZA = """
job.name=views
task.class=samza_task_of_inputs_test:Views
task.inputs=kafka.{topic}
systems.kafka.samza.factory=org.apache.samza.system.kafka.KafkaSystemFactory
systems.kafka.consumer.bootstrap.servers={brokers}
"""
TASK = """
from headrace.flow.samza.task import StreamTask

class Views(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder for programs; `sys.path` is restored afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    yield tmp_path
    for name in ("words_of_inputs_test", "samza_task_of_inputs_test"):
        sys.modules.pop(name, None)


def flow(broker: BrokerProcess, folder: Path, *arguments: str) -> Finished:
    environment = {FOLDER_VARIABLE: str(folder / "flows")}
    return run_headrace("flow", *arguments, "-b", broker.address, environment=environment)


@pytest.mark.parametrize("program", [STORM, TRIDENT], ids=["storm", "trident"])
@pytest.mark.parametrize("way", [[], ["--batch"]], ids=["stream", "batch"])
def test_a_program_names_the_topic_and_the_option_that_creates_it(
    broker: BrokerProcess, topic: str, folder: Path, program: str, way: list[str]
) -> None:
    path = folder / "words_of_inputs_test.py"
    path.write_text(program)

    done = flow(broker, folder, "run", str(path), "-X", f"topic={topic}-not", *way)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"headrace: words cannot start: there is no topic {topic}-not; ")
    assert done.err.endswith("--create-topics creates missing topics\n")
    assert done.err.count("\n") == 1


def test_a_samza_job_names_its_input_and_can_create_it(
    broker: BrokerProcess, topic: str, folder: Path
) -> None:
    (folder / "samza_task_of_inputs_test.py").write_text(TASK)
    path = folder / "views.properties"
    path.write_text(SAMZA.format(topic=topic, brokers=broker.address))

    done = flow(broker, folder, "run", str(path))
    load(path).create_inputs()

    assert done.code == 1
    assert f"the input {topic} is no topic yet: create it first (--create-topics does)" in done.err
    assert done.err.count("\n") == 1
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        assert topic in pool.metadata(None).topics


def test_landing_names_the_topic(broker: BrokerProcess, topic: str, folder: Path) -> None:
    done = flow(broker, folder, "land", f"{topic}-not", "--to", str(folder / "lake"))

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"headrace: there is no topic {topic}-not; ")
    assert done.err.count("\n") == 1


def test_brokers_that_do_not_answer_are_reported_before_spark_starts(folder: Path) -> None:
    path = folder / "words_of_inputs_test.py"
    path.write_text(STORM)

    done = run_headrace("flow", "run", str(path), "-b", "127.0.0.1:1", "-X", "topic=lines")

    assert (done.code, done.out) == (1, "")
    assert "cannot reach 127.0.0.1:1" in done.err
    assert done.err.count("\n") == 1
