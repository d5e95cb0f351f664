"""`headrace flow` without Spark: what it says about runs and programs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE, Run, RunFolder, this_run
from testkit.process.command_line import Finished, run_headrace

WORDS = """
name: words
config: {dead.letters: null}
spouts:
  - id: lines
    className: headrace.flow.storm.spout:TopicSpout
    constructorArgs: {topics: "${input}", brokers: "${brokers}", fields: value STRING}
bolts:
  - {id: split, className: "builtins:str.split", output: word STRING}
sinks:
  - {id: out, className: headrace.flow.storm.sink:TopicSink, constructorArgs: [words]}
streams:
  - {from: lines, to: split, grouping: {type: SHUFFLE}}
  - {from: split, to: out, grouping: {type: SHUFFLE}}
"""


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "flows")


@pytest.fixture
def run(run_folder: RunFolder) -> Iterator[Run]:
    """A flow that seems to run in this process."""
    with MetricsServer() as metrics:
        metrics.serve_query("words", lambda: {"batchId": 3, "batchDuration": 20})
        made = this_run(
            name="words",
            program="words.yaml",
            master="local[2]",
            brokers="b:9092",
            checkpoint="words.checkpoint",
            metrics=metrics.address,
        )
        run_folder.write(made)
        yield made


def flow(run_folder: RunFolder, *arguments: str) -> Finished:
    return run_headrace("flow", *arguments, environment={FOLDER_VARIABLE: str(run_folder.folder)})


def test_list_shows_what_runs(run_folder: RunFolder, run: Run) -> None:
    (row,) = json.loads(flow(run_folder, "list", "--format", "json").out)

    assert (row["name"], row["pid"], row["checkpoint"]) == ("words", run.pid, "words.checkpoint")


def test_metrics_come_from_the_run(run_folder: RunFolder, run: Run) -> None:
    assert flow(run_folder, "metrics", "words").lines == ["batch 3, 0 records, 0 records/s, 20 ms"]
    assert json.loads(flow(run_folder, "metrics", "words", "--format", "json").out)["batch"] == 3


def test_describe_draws_a_program_that_does_not_run(run_folder: RunFolder, tmp_path: Path) -> None:
    path, picture = tmp_path / "words.yaml", tmp_path / "words.svg"
    path.write_text(WORDS)

    done = flow(run_folder, "describe", str(path), "-X", "input=lines", "--svg", str(picture))

    assert done.code == 0, done.err
    assert "words (exactly-once)" in done.out
    assert "shuffle → split" in done.out
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["stop", "words"], 1, "no flow called words runs"),
        (["restart", "words"], 1, "no flow called words runs"),
        (["rebalance", "words"], 2, "nothing to change: give -e component=N or -n N"),
        (["rebalance", "words", "-e", "a=many"], 2, "-e a cannot be 'many'"),
        (["run", "x.py", "--local", "--master", "yarn"], 2, "--local and --master"),
        (["run", "x.py", "--from", "start"], 2, "--from and --to are for --batch"),
        (["run", "x.py", "--batch", "--for", "3s"], 2, "--batch ends by itself"),
        (
            ["run", "x.py", "--deploy-mode", "cluster", "--master", "spark://h:7077"],
            2,
            "spark://h:7077 runs no driver in Python: leave out --deploy-mode cluster",
        ),
        (["run", "x.py", "--deploy-mode", "cluster"], 2, "--deploy-mode cluster wants --master"),
        (["run", "no_such.py"], 2, "there is no file no_such.py"),
        (["run", "no_such.yaml"], 1, "no_such.yaml cannot be read"),
        (["land", "t", "--to", "d", "--as", "json"], 1, "json, csv and avro need columns"),
        (["land", "t"], 2, "either a folder with --to DIR or a table with --table TABLE"),
        (["land", "t", "--to", "d", "--table", "delta:d"], 2, "either a folder with --to DIR or"),
        (["land", "t", "--to", "d", "--catalog", "a=b"], 2, "belong to --table"),
        (["land", "t", "--table", "delta:d", "--tidy"], 2, "--tidy and --time belong to --to"),
        (["land", "t", "--table", "delta:d", "--as", "csv"], 1, "a format cannot be 'csv'"),
        (["land", "t", "--table", "delta:d", "--as", "registry"], 1, "need a schema registry"),
        (["land", "t", "--table", "delta:d", "--columns", "a INT"], 1, "add --as json"),
        (["land", "t", "--table", "iceberg:a.b.c"], 1, "needs a folder for Spark's checkpoint"),
        (["land", "t,u", "--table", "delta:d"], 1, "a table holds one topic"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    run_folder: RunFolder, arguments: list[str], code: int, message: str
) -> None:
    done = flow(run_folder, *arguments)

    assert (done.code, done.err.count("\n")) == (code, 1), done.err
    assert message in done.err


def test_a_bad_program_is_reported_before_spark_starts(
    run_folder: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "words.yaml"
    path.write_text(WORDS.replace("from: split", "from: lines").replace("[words]", "[w, key: a]"))

    done = flow(run_folder, "run", str(path), "-X", "input=lines")

    assert done.code == 1
    assert "words.yaml:" in done.err
