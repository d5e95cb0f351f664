"""The quick reader of `headrace up`'s command line reads what typer reads, or declines."""

from collections.abc import Sequence
from contextlib import suppress
from unittest.mock import patch

import typer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.cli.broker import up
from headrace.cli.broker.up_options import UpOptions, plain_options

COMMAND = typer.main.get_command(up.command)
NAMES = [
    "--listen",
    "--data",
    "--advertise",
    "--brokers",
    "--zookeeper",
    "--broker-id",
    "--with",
    "--config",
    "-X",
    "--log-level",
    "--log-format",
    "--help",
    "--nothing",
    "-x",
    "-",
    "--",
]
VALUES = [
    "127.0.0.1:9092",
    "3",
    "auto",
    "-1",
    "",
    "a=b",
    "a=",
    "=",
    "--data",
    "ä",
    "٣",
    " 7",
    "1_0",
]


def typer_options(arguments: Sequence[str]) -> UpOptions | None:
    """Return the options as typer reads them; None where it refuses them, or prints help."""
    seen: list[UpOptions] = []

    def note(options: UpOptions) -> int:
        seen.append(options)
        return 0

    with patch.object(up, "run_up", note), suppress(SystemExit):
        COMMAND.main(args=list(arguments), prog_name="headrace up", standalone_mode=True)
    return seen[0] if seen else None


def words() -> st.SearchStrategy[list[str]]:
    name, value = st.sampled_from(NAMES), st.sampled_from(VALUES) | st.text(max_size=4)
    return (
        st.tuples(name, value).map(list)
        | st.tuples(name, value).map(lambda pair: ["=".join(pair)])
        | value.map(lambda each: [f"-X{each}"])
        | value.map(lambda each: [each])
    )


@given(
    st.lists(words(), max_size=4).map(lambda several: [each for some in several for each in some])
)
@settings(deadline=None, max_examples=60)
@example(["-X", "num.partitions=6", "-Xlog.dirs=/data", "--listen=127.0.0.1:0"])
@example(["--with", "kinesis,console", "--with", "rest", "--broker-id", "007"])
def test_what_it_does_not_decline_it_reads_as_typer_does(arguments: list[str]) -> None:
    options = plain_options(["up", *arguments])

    if options is not None:
        assert options == typer_options(arguments)


def test_what_processes_are_started_with_is_plain() -> None:
    """Of the examples in the help and of the supervisor: all of them start quickly."""
    arguments = ["--listen", "127.0.0.1:9192", "--data", "/data", "--config", "server.properties"]
    more = ["--zookeeper", "zk1:2181", "--broker-id", "2", "--advertise=node2:9092", "-Xa=b"]

    assert plain_options(["up", *arguments, *more, "--log-level", "info"]) is not None
    assert plain_options(["up"]) == UpOptions()


def test_another_command_is_declined() -> None:
    assert plain_options([]) is None
    assert plain_options(["--version"]) is None
    assert plain_options(["topic", "list"]) is None
