"""`headrace flow` as a user runs it: a process of its own, looked after by other commands."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE
from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.peer.spark_session import quiet_config, spark_environment
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace

WORDS = """
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

def shout(line: str) -> str:
    return line.upper()

def topology(brokers: str, prefix: str) -> Topology:
    made = Topology(prefix, dead_letters=None)
    made.spout("lines", TopicSpout(f"{prefix}-in", brokers=brokers, fields="value STRING"))
    made.bolt("shout", shout, output="word STRING").fields("lines", "value")
    made.sink("out", TopicSink(f"{prefix}-out", value="word")).shuffle("shout")
    return made
"""
_SECONDS = 400.0


class Flow:
    """A program that runs, and the commands about it."""

    def __init__(self, broker: BrokerProcess, name: str, folder: Path) -> None:
        self.address, self.name, self.folder = broker.address, name, folder
        self._program = folder / "words_of_cli_test.py"
        self._program.write_text(WORDS)
        self._flows = folder / "flows"
        self._process: subprocess.Popen[str] | None = None
        self._log = folder / "run.log"
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})

    def start(self) -> None:
        settings = quiet_config(self.folder)
        settings["spark.ui.enabled"] = "true"
        settings["spark.ui.port"] = "0"
        arguments = [f"-X{key}={value}" for key, value in settings.items()]
        command = [sys.executable, "-m", "headrace.cli.main", "flow", "run", str(self._program)]
        options = ["--master", "local[2]", "--create-topics", "-b", self.address]
        with self._log.open("w") as output:
            self._process = subprocess.Popen(
                [*command, *options, "-X", f"prefix={self.name}", *arguments],
                env={**os.environ, **spark_environment(), FOLDER_VARIABLE: str(self._flows)},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=die_with_parent,
            )

    def command(self, *arguments: str) -> Finished:
        return run_headrace("flow", *arguments, environment={FOLDER_VARIABLE: str(self._flows)})

    def executed(self) -> dict[str, int]:
        done = self.command("metrics", self.name, "--format", "json")
        if done.code != 0:  # it does not respond in time on a busy machine
            return {}
        figures = json.loads(done.out)
        return {each["component"]: each["executed"] for each in figures["components"]}

    def feed(self, *lines: str) -> None:
        for line in lines:
            self._producer.produce(f"{self.name}-in", line)
        assert self._producer.flush(60) == 0

    def written(self) -> list[str]:
        return [each.decode() for each in read_to_end(self.address, f"{self.name}-out")]

    def wait(self, what: str, condition: object) -> None:
        assert callable(condition)
        process = self._process
        assert process is not None

        def holds() -> bool:
            assert process.poll() is None, self._log.read_text()
            return bool(condition())

        wait_until(holds, what=what, timeout_seconds=_SECONDS)

    def ended(self) -> tuple[int, str]:
        assert self._process is not None
        return self._process.wait(_SECONDS), self._log.read_text()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def flow(broker: BrokerProcess, topic: str, tmp_path: Path) -> Iterator[Flow]:
    made = Flow(broker, topic, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(1800)
def test_a_flow_runs_is_looked_at_changed_and_stopped(flow: Flow) -> None:
    flow.start()
    flow.wait("the run in the list", lambda: flow.name in flow.command("list").out)
    flow.feed("a", "b")
    flow.wait("the first words", lambda: sorted(flow.written()) == ["A", "B"])
    flow.wait("its figures", lambda: flow.executed().get("shout") == 2)
    described = json.loads(flow.command("describe", flow.name, "--format", "json").out)

    refused = flow.command("rebalance", flow.name, "-e", "shuot=2")
    changed = flow.command("rebalance", flow.name, "-e", "shout=2")
    after = json.loads(flow.command("describe", flow.name, "--format", "json").out)
    paused = flow.command("deactivate", flow.name)
    flow.feed("c")
    (row,) = json.loads(flow.command("list", "--format", "json").out)
    while_paused = sorted(flow.written())
    resumed = flow.command("activate", flow.name)
    flow.wait("a word after the change", lambda: sorted(flow.written()) == ["A", "B", "C"])
    stopped = flow.command("stop", flow.name)

    assert described["run"]["console"].startswith("http://")
    assert [each["name"] for each in described["graph"]["nodes"]] == ["lines", "shout", "out"]
    assert (refused.code, "has no component shuot" in refused.err) == (1, True)
    assert changed.code == 0, changed.err
    assert after["graph"]["nodes"][1]["parallelism"] == 2
    assert paused.code == 0, paused.err
    assert (row["state"], while_paused) == ("inactive", ["A", "B"])
    assert resumed.code == 0, resumed.err
    assert stopped.code == 0, stopped.err
    code, said = flow.ended()
    assert code == 0, said
    assert said.rstrip().endswith("Stopped.")
    assert flow.command("list", "--format", "json").out.strip() == "[]"
