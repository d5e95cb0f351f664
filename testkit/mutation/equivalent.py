"""Mutants that no test can kill, each with its reason: `equivalent.toml`.

An entry names the line before and after, not its number, so that it survives changes elsewhere in
the file. An entry that fits no mutant any more is an error: the code has changed, or was wrong.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutated line that behaves as the line does, and why."""

    path: str
    before: str
    after: str
    why: str


def equivalents(file: Path = _FILE) -> dict[tuple[str, str, str], Equivalent]:
    """Return the list by path, line before and line after."""
    rows = tomllib.loads(file.read_text()).get("equivalent", [])
    found = [Equivalent(**row) for row in rows]
    return {(each.path, each.before, each.after): each for each in found}
