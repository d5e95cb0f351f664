"""The command itself: help, exit codes, and what it loads."""

import subprocess
import sys

import pytest

from headrace.testing.readiness import free_port
from testkit.process.command_line import run_headrace

NOUNS = {
    "topic": "create list describe alter-config add-partitions trim-prefix delete produce consume",
    "group": "list describe seek offset-delete delete",
    "cluster": "info health configs",
    "log": "dump",
}


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_lists_its_verbs(noun: str) -> None:
    shown = run_headrace(noun, "--help")
    assert shown.code == 0
    assert all(f"\n  {verb} " in shown.out for verb in NOUNS[noun].split())


@pytest.mark.parametrize(
    "command",
    [[noun, verb] for noun, verbs in NOUNS.items() for verb in verbs.split()]
    + [
        ["registry", "user", "add"],
        ["kinesis", "channel", "list"],
        ["kinesis", "channel", "describe"],
    ],
)
def test_commands_have_examples_in_their_help(command: list[str]) -> None:
    shown = run_headrace(*command, "--help")
    assert shown.code == 0
    assert "Examples:" in shown.out
    assert f"headrace {' '.join(command)}" in shown.out


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, runpy\n"
        "sys.argv = ['headrace', '--help']\n"
        "try: runpy.run_module('headrace.cli.main', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'pyarrow', 'kio', 'numpy', 'asyncio', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Start a broker." in done.stdout


def test_a_command_that_does_not_exist_is_wrong_usage() -> None:
    assert run_headrace("topic", "frobnicate").code == 2
    assert run_headrace("topics").code == 2


def test_a_missing_argument_is_wrong_usage() -> None:
    assert run_headrace("topic", "create").code == 2


def test_a_broker_that_is_not_there_is_one_sentence() -> None:
    address = f"127.0.0.1:{free_port()}"
    ended = run_headrace("topic", "list", "-b", address)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"headrace: cannot reach {address}: connection refused; "
        "is the broker running? start one with: headrace up\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-X", "bootstrap.servers"], "-X bootstrap.servers has no value"),
        (["-X", "bootstrap.server=x"], "did you mean bootstrap.servers?"),
        (["-b", "host:port"], "'host:port' is not a broker's address"),
        (["-X", "request.timeout.ms=soon"], "request.timeout.ms cannot be 'soon'"),
    ],
)
def test_a_wrong_setting_is_one_sentence(arguments: list[str], sentence: str) -> None:
    ended = run_headrace("topic", "list", *arguments)
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["topic", "consume", "t", "-o", "somewhere"], "is no offset"),
        (["topic", "consume", "t", "-f", "%z"], "%z is no part of a record"),
        (["topic", "consume", "t", "-f", "%v", "--format", "json"], "give one"),
        (["topic", "consume", "t", "-g", "g", "-p", "0"], "a group reads whole topics"),
        (["topic", "produce", "t", "-H", "novalue"], "-H novalue has no value"),
        (["topic", "produce", "t", "-Z", "lzma"], "lzma"),
        (["topic", "alter-config", "t"], "nothing to change"),
        (["topic", "create", "t", "-c", "retention.ms"], "-c retention.ms has no value"),
        (["group", "seek", "g"], "either --to OFFSET or --to-group GROUP"),
        (["group", "offset-delete", "g", "--topics", "t:x"], "write it as clicks:0,1"),
    ],
)
def test_wrong_usage_is_reported_before_a_broker_is_asked(
    arguments: list[str], sentence: str
) -> None:
    ended = run_headrace(*arguments, "-b", f"127.0.0.1:{free_port()}")
    assert sentence in ended.err
    assert ended.code == 2


def test_brokers_come_from_the_option_then_the_setting_then_the_environment() -> None:
    environment = {"HEADRACE_BROKERS": "environment.invalid:1"}
    both = ["-X", "bootstrap.servers=setting.invalid:1", "-b", "option.invalid:1"]
    for arguments, expected in [(both, "option"), (both[:2], "setting"), ([], "environment")]:
        ended = run_headrace("topic", "list", *arguments, environment=environment)
        assert f"cannot reach {expected}.invalid:1" in ended.err
