"""Every `headrace` command in the pages, the examples and the help exists, with its options."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from headrace.cli.command_group import app

ROOT = Path(__file__).parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
_BLOCK = re.compile(r"^( *)```[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`headrace ([^`]+)`")
_IN_BLOCK = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*headrace (.*)$", re.MULTILINE)
_IN_HELP = re.compile(r"^  headrace (.*(?:\n    \S.*)*)$", re.MULTILINE)
# What follows is the shell's, or an explanation, which stands at a distance in the help.
_END = re.compile(r" [|#>]| && | ; | {3,}|; |$")


@cache
def root() -> Any:
    return typer.main.get_command(app)


@cache
def below(group: TyperGroup, name: str) -> Any:
    """Return a command of a group; None if there is none."""
    return group.get_command(typer.Context(group), name)


def in_page(text: str) -> Iterator[str]:
    """Yield what stands behind `headrace` in a page."""
    for _, block in _BLOCK.findall(text):
        yield from _IN_BLOCK.findall(block.replace("\\\n", " "))
    for inline in _INLINE.findall(_BLOCK.sub("", text)):
        yield " ".join(inline.split())


def in_help(command: Any) -> Iterator[str]:
    """Yield the examples of a command and of those below it."""
    for example in _IN_HELP.findall((command.epilog or "").replace("\b", "")):
        yield example.replace("\n", " ")
    if isinstance(command, TyperGroup):
        for name in command.list_commands(typer.Context(command)):
            yield from in_help(below(command, name))


def mistake(line: str) -> str | None:
    """Return what is wrong with a command, if anything."""
    words = line[: _END.search(line).start()].replace("[", " ").replace("]", " ")  # type: ignore[union-attr]
    try:
        tokens = shlex.split(words)
    except ValueError:
        tokens = words.split()  # an apostrophe in a sentence
    command = root()
    options = set(_options(command))
    for token in tokens:
        if token == "--":
            break
        if token.startswith("-") and not re.match(r"-\d", token):
            name = token.partition("=")[0]
            if not {name, name[:2] if name[1] != "-" else name} & options:
                return f"headrace {line}: there is no option {name}"
        elif isinstance(command, TyperGroup):
            found = [below(command, each) for each in token.split("|")]
            if None in found:
                # A group that is also a command takes arguments.
                return None if command.invoke_without_command else f"headrace {line}: no {token}"
            if len(found) > 1:
                return None
            command = found[0]
            options |= _options(command)
    return None


def _options(command: Any) -> set[str]:
    listed = {
        name
        for each in command.params
        for name in (*each.opts, *each.secondary_opts)
        if name.startswith("-")
    }
    return listed | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist(page: Path) -> None:
    assert [found for line in in_page(page.read_text()) if (found := mistake(line))] == []


def test_examples_of_the_help_exist() -> None:
    lines = list(in_help(root()))

    assert len(lines) > 100
    assert [found for line in lines if (found := mistake(line))] == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert mistake("topic alter-config clicks --set a=1 | cat") is None
    assert mistake("topic alter-config clicks -c a=1") is not None
    assert mistake("topic change clicks") is not None
