"""What a shell is offered."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from headrace.cli.command_group import app
from headrace.cli.completion import candidates
from testkit.peer.peer import require_peer
from testkit.process.command_line import run_headrace


def offered(*words: str) -> list[str]:
    return candidates(typer.main.get_command(app), list(words))


def test_nouns_are_offered_first() -> None:
    assert {"topic", "group", "lag", "doctor"} <= set(offered(""))


def test_a_noun_is_completed() -> None:
    assert offered("top") == ["topic"]


def test_verbs_belong_to_their_noun() -> None:
    assert offered("topic", "cons") == ["consume"]


def test_options_begin_with_dashes() -> None:
    assert "--once" in offered("lag", "--o")


def test_values_of_an_option_are_offered() -> None:
    assert offered("group", "list", "--format", "") == ["json", "text"]


def test_values_of_an_argument_are_offered() -> None:
    assert offered("completion", "") == ["bash", "fish", "zsh"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = run_headrace("completion", shell)
    assert done.code == 0
    assert "headrace completion candidates" in done.out


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        require_peer("there is no bash here")
    program = tmp_path / "headrace"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headrace.cli.main "$@"\n')
    program.chmod(0o755)
    script = (
        f"PATH={tmp_path}:$PATH\nsource <(headrace completion bash)\n"
        "COMP_WORDS=(headrace topic con); COMP_CWORD=2; _headrace_completion\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["consume"]
