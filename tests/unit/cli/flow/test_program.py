"""Programs that `headrace flow run` loads, and what it says about others."""

import sys
from pathlib import Path

import pytest

from headrace.cli.flow.program import ProgramArguments, load_program
from headrace.flow.error import FlowError
from headrace.model.error import ConfigError

WORDS = """
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

def make(brokers: str, input_topic: str, tasks: int = 2) -> Topology:
    words = Topology("words")
    words.spout("lines", TopicSpout(input_topic, brokers=brokers, fields="value STRING"))
    words.bolt("split", str.split, output="word STRING", parallelism=tasks).shuffle("lines")
    words.sink("out", TopicSink("words")).shuffle("split")
    return words
"""


@pytest.fixture(autouse=True)
def restored_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the change of the import path, in this process and for Spark's workers."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")


def write(folder: Path, text: str, name: str = "words_of_test.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def given(**pairs: str) -> ProgramArguments:
    return ProgramArguments(
        "b:9092", {key.replace("__", "."): value for key, value in pairs.items()}
    )


def test_a_function_is_called_with_the_arguments(tmp_path: Path) -> None:
    arguments = given(
        input_topic="lines", tasks="4", spark__cores__max="2", metrics__topic="figures"
    )

    plan = load_program(write(tmp_path, WORDS) + ":make", arguments).plan

    assert plan.components["lines"].work.topics == ("lines",)
    assert plan.components["lines"].work.brokers == "b:9092"
    assert plan.components["split"].parallelism == 4
    assert plan.settings == {"spark.cores.max": "2", "metrics.topic": "figures"}


def test_a_file_without_a_name_means_its_topology(tmp_path: Path) -> None:
    path = write(tmp_path, WORDS + "\ntopology = make('b:9092', 'lines')\n")

    assert load_program(path, given()).plan.name == "words"


def test_functions_of_a_program_are_pickled_by_value(tmp_path: Path) -> None:
    text = WORDS.replace("str.split", "own") + "\ndef own(line):\n    return line.split()\n"
    plan = load_program(write(tmp_path, text) + ":make", given(input_topic="lines")).plan
    from pyspark import cloudpickle

    data = cloudpickle.dumps(plan.components["split"].work)

    assert b"co_code" in data or b"_make_function" in data


@pytest.mark.parametrize(
    ("name", "pairs", "message"),
    [
        (":make", {}, "needs input_topic: give it with -X input_topic="),
        (
            ":make",
            {"input_topic": "lines", "tasks": "two"},
            "-X tasks cannot be 'two': it is a int",
        ),
        (":make", {"input_topic": "lines", "taks": "2"}, "-X taks means nothing .* mean tasks"),
        (":mkae", {}, "words_of_test has no mkae"),
        ("", {}, "does not say which topology to run"),
        (":TopicSink.__doc__", {}, "is a str: give a topology"),
    ],
)
def test_a_program_that_cannot_run_is_explained(
    tmp_path: Path, name: str, pairs: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_program(write(tmp_path, WORDS) + name, given(**pairs))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_file.py", "there is no file no_such_file.py"),
        ("no_such_module:topology", "there is no module no_such_module"),
        ("words", "cannot be run: write FILE.py"),
    ],
)
def test_a_missing_program_is_named(target: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_program(target, given())


def test_a_flux_file_gets_the_brokers_and_the_pairs(tmp_path: Path) -> None:
    text = """
name: ${name}
spouts:
  - id: lines
    className: headrace.flow.storm.spout:TopicSpout
    constructorArgs: {topics: lines, brokers: "${brokers}", fields: value STRING}
"""
    plan = load_program(write(tmp_path, text, "words.yaml"), given(name="words")).plan

    assert plan.name == "words"
    assert plan.components["lines"].work.brokers == "b:9092"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def topology():\n    return {}['lines']\n",
            "words_of_test.py failed: KeyError: 'lines'",
        ),
        ("x = 1 +\n", "words_of_test.py failed: SyntaxError: invalid syntax"),
    ],
)
def test_an_error_in_a_program_is_reported_with_its_own_lines_only(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path, text)

    with pytest.raises(FlowError) as failed:
        load_program(path, given())

    lines = str(failed.value).splitlines()
    assert lines[0].endswith(message)
    assert lines[1].startswith(f'  File "{path}", line ')
    assert sum("File" in line for line in lines) == 1


FILE = {"kafka.sasl.username": "file", "kafka.sasl.password": "F", "kafka.client.id": "me"}


def test_the_login_of_the_user_is_for_programs_that_have_none() -> None:
    given = ProgramArguments("b:9092", {"kafka.sasl.password": "X"}, login=FILE)

    assert given.settings_over({}) == FILE | {"kafka.sasl.password": "X"}
    assert ProgramArguments("b:9092", {}, login=FILE).settings_over(
        {"kafka.sasl.username": "own", "audit": "true"}
    ) == {"kafka.sasl.username": "own", "audit": "true", "kafka.client.id": "me"}


def test_a_spout_of_another_cluster_is_not_sent_the_login_of_the_user(tmp_path: Path) -> None:
    path = write(tmp_path, WORDS + "\ntopology = make('other:9092', 'lines')\n")

    def options(arguments: ProgramArguments) -> dict[str, str]:
        found: dict[str, str] = load_program(path, arguments).plan.components["lines"].work.options
        return found

    login = FILE | {"kafka.security.protocol": "SASL_SSL"}
    assert options(ProgramArguments("b:9092", {}, login=login)) == {
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.client.id": "me",
    }
    # What the user writes into the command goes to every client of the flow.
    assert options(ProgramArguments("b:9092", login)) == login


def test_a_key_of_storm_is_no_mistake() -> None:
    ProgramArguments("b:9092", {"topology.workers": "4"}).check_used("words.py")
