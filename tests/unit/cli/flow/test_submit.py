"""Sending a flow to a cluster that runs its driver too."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from headrace.cli.flow.submit import Submission, environment_settings
from headrace.config.properties import property_values
from headrace.model.error import ConfigError

HOME = Path("/spark")
RECIPES = Path(__file__).parents[4] / "examples" / "kubernetes"


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


@pytest.mark.parametrize("master", ["local[*]", "spark://h:7077"])
def test_a_master_that_runs_no_python_driver_is_refused(master: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="runs no driver in Python"):
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


class TestKubernetes:
    IMAGE: ClassVar = {"spark.kubernetes.container.image": "words:1"}
    LOGIN_FILE = "spark.kubernetes.driverEnv.HEADRACE_CLIENT_CONFIG"

    def made(self, **changes: object) -> Submission:
        return replace(
            submission("/work/words.py", "k8s://https://api:6443"),
            **{"settings": self.IMAGE, **changes},  # type: ignore[arg-type]
        )

    def test_the_image_has_the_program(self, tmp_path: Path) -> None:
        command = self.made(pairs={"prefix": "a"}).command(HOME, tmp_path)
        main = command.index("local:///opt/headrace/main.py")
        assert command[1:5] == ["--master", "k8s://https://api:6443", "--deploy-mode", "cluster"]
        assert command[main + 1 : main + 5] == ["flow", "run", "words.py", "--verbose"]
        assert command[-2:] == ["-X", "prefix=a"]
        assert "--files" not in command

    def test_an_image_is_asked_for(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="which image the pods run"):
            self.made(settings={}).command(HOME, tmp_path)

    @pytest.mark.parametrize(
        "changes",
        [
            {"login": {"kafka.sasl.password": "apple"}},
            {"pairs": {"kafka.sasl.password": "apple"}},
            {"pairs": {"sink.kafka.sasl.password": "apple"}},
            {"pairs": {"source.kafka.ssl.key.pem": "apple"}},
            {"pairs": {"systems.other.producer.sasl.jaas.config": "apple"}},
            {"pairs": {"db_password": "apple"}},
        ],
    )
    def test_a_password_is_not_sent(self, tmp_path: Path, changes: dict[str, object]) -> None:
        with pytest.raises(ConfigError, match="into a Secret") as refused:
            self.made(**changes).command(HOME, tmp_path)
        assert "apple" not in str(refused.value)

    def test_a_login_is_read_from_a_secret(self, tmp_path: Path) -> None:
        settings = {**self.IMAGE, self.LOGIN_FILE: "/etc/headrace/client.properties"}
        login = {"kafka.sasl.password": "apple"}
        command = self.made(settings=settings, login=login).command(HOME, tmp_path)
        assert f"{self.LOGIN_FILE}=/etc/headrace/client.properties" in command
        assert not any("apple" in word for word in command)

    def test_the_recipe_and_the_manifest_agree_with_the_command(self, tmp_path: Path) -> None:
        manifest = yaml.safe_load((RECIPES / "words.yaml").read_text())["spec"]
        recipe = (RECIPES / "Dockerfile").read_text()
        command = self.made().command(HOME, tmp_path)
        main = manifest["mainApplicationFile"]

        assert main in command
        assert f"> {main.removeprefix('local://')}" in recipe
        assert manifest["sparkVersion"] == version("pyspark")
        assert f"FROM apache/spark:{version('pyspark')}-" in recipe
        assert manifest["arguments"][:4] == command[command.index(main) + 1 :][:4]
