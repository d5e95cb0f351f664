"""Sending a flow to a cluster that runs its driver too."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cli.flow.submit import Submission, environment_settings
from headrace.config.properties import property_values
from headrace.model.error import ConfigError

HOME = Path("/spark")


def submission(program: str, master: str = "yarn") -> Submission:
    return Submission(
        name="words",
        program=program,
        master=master,
        arguments=["-b", "b:9092", "--checkpoint", "hdfs:///ck"],
        settings={"spark.executor.instances": "2"},
    )


@pytest.mark.parametrize(
    ("program", "there", "files"),
    [
        ("/work/words.py", "words.py", "/work/words.py"),
        ("/work/words.py:other", "words.py:other", "/work/words.py"),
        ("/work/words.yaml", "words.yaml", "/work/words.yaml"),
        ("words:topology", "words:topology", None),
    ],
)
def test_the_driver_runs_the_same_command_in_the_cluster(
    program: str, there: str, files: str | None, tmp_path: Path
) -> None:
    command = submission(program).command(HOME, tmp_path)
    main = next(index for index, word in enumerate(command) if word.endswith("cli/main.py"))
    assert command[:5] == [
        "/spark/bin/spark-submit",
        "--master",
        "yarn",
        "--deploy-mode",
        "cluster",
    ]
    assert command[main + 1 :] == [
        *("flow", "run", there, "--verbose"),
        *("-b", "b:9092", "--checkpoint", "hdfs:///ck"),
    ]
    assert "spark.executor.instances=2" in command
    shipped = command[command.index("--files") + 1] if "--files" in command else None
    assert shipped == files


@pytest.mark.parametrize("master", ["local[*]", "spark://h:7077", "k8s://h"])
def test_a_master_that_runs_no_python_driver_is_refused(master: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is for --master yarn"):
        submission("words.py", master).command(HOME, tmp_path)


def test_a_packed_environment_is_shipped_and_its_python_started(tmp_path: Path) -> None:
    archive = tmp_path / "it.tar.gz"
    with pytest.raises(ConfigError, match="headrace flow pack -o"):
        environment_settings(str(archive), {})
    archive.touch()
    assert environment_settings(str(archive), {"spark.archives": "other.zip"}) == {
        "spark.archives": f"{archive}#environment,other.zip",
        "spark.pyspark.python": "./environment/bin/python",
    }
    assert environment_settings("hdfs:///it.tar.gz", {})["spark.archives"] == (
        "hdfs:///it.tar.gz#environment"
    )


def test_a_password_is_shipped_in_a_file_and_not_on_the_command_line(tmp_path: Path) -> None:
    pairs = {
        "kafka.security.protocol": "SASL_SSL",
        "sink.kafka.sasl.password": "a\\b=c: ${HOME} #d",
        "kafka.ssl.key.pem": "-----BEGIN-----\nabc\n-----END-----",
    }
    command = replace(submission("/work/words.py"), pairs=pairs).command(HOME, tmp_path)
    file = tmp_path / "pairs.properties"
    assert property_values(file) == pairs
    assert file.stat().st_mode & 0o077 == 0
    assert command[command.index("--files") + 1] == f"/work/words.py,{file}"
    assert command[-2:] == ["--filter", "pairs.properties"]
    assert not any("a\\b" in word for word in command)
