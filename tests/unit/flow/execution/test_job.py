"""What `start` and its like read before they need Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.execution.job import run_batch, start
from headrace.flow.land import Landing
from headrace.flow.plan.plan import Plan
from headrace.flow.sql import Catalog, Engine
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.model.error import ConfigError


def plan() -> Plan:
    made = Topology("words")
    made.spout("lines", TopicSpout("in", brokers="b:9092", fields="value STRING"))
    made.sink("out", TopicSink("out")).shuffle("lines")
    return made.plan()


@pytest.mark.parametrize(
    "begin",
    [
        lambda: start(plan(), None, brokers="b:9092", checkpoint="words"),
        lambda: run_batch(plan(), None, brokers="b:9092"),
        lambda: Landing(topics="in", brokers="b:9092", folder="to")._source_options(),
        lambda: Engine(None, "b:9092", Catalog(), "checkpoints"),
    ],
    ids=["start", "run_batch", "land", "sql"],
)
def test_a_program_in_python_reads_the_users_file(
    begin: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.pasword=MARKED\n")
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(file))

    with pytest.raises(ConfigError, match=r"did you mean sasl\.password"):
        begin()
