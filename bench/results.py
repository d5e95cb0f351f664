"""bench/RESULTS.md as rows: how its lines are kept, and what each of them says.

A line whose name begins with "the same" belongs to the line above it that does not: its subject.
Only both names together are one row's own, because "the same, broker CPU" follows many subjects.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
_SAME = "the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of the table.

    Attributes:
        subject: the name of the row that "the same" in `name` stands for; otherwise the same name.
        ours, theirs: the figures; None where the table has none, or has words instead of one.
        ratio: as the table has it, of figures before they were rounded.
        spread: (largest - smallest) / median of our rounds.
        reached: whether the bar was reached; None where there is none.
        measured: the day, as 2026-11-15.
    """

    suite: str
    subject: str
    name: str
    ours: float | None
    theirs: float | None
    unit: str
    ratio: float | None
    spread: float | None
    bar: str
    reached: bool | None
    measured: str

    @property
    def more_is_better(self) -> bool:
        """A rate; everything else in the table is a time, a size or a cost."""
        return self.unit.endswith("/s")


@dataclass(frozen=True, slots=True)
class Results:
    """The whole page.

    Attributes:
        machine: one line: processor, cores, memory, kernel.
        versions: of Python, the libraries and the peers, by name.
    """

    machine: str
    versions: dict[str, str]
    rows: list[Result]

    def find(self, suite: str, name: str, subject: str | None = None) -> Result | None:
        """Return the row, or None when it is not measured yet."""
        for row in self.rows:
            if (row.suite, row.name) == (suite, name) and subject in (None, row.subject):
                return row
        return None


def read_results(text: str) -> Results:
    """Return what a page says.

    Raises:
        ValueError: a line of a table has another number of columns.
    """
    head, *parts = text.split("\n## ")
    rows = []
    for part in parts:
        suite = part.partition("\n")[0]
        for subject, lines in by_subject(lines_of(part)).items():
            rows += [_result(suite, subject, line) for line in lines.values()]
    machine, _, libraries = _described("Machine", head).partition(", Python ")
    return Results(machine, _versions(f"Python {libraries}", _described("Peers", head)), rows)


def _described(word: str, head: str) -> str:
    """Return what the heading says behind a word, in one line."""
    found = re.search(rf"^{word}: (.*?)\.\n(?=\n|[A-Z]\w+: )", head, re.M | re.S)
    return " ".join(found[1].split()) if found else ""


def _versions(*lists: str) -> dict[str, str]:
    pairs = [each.rpartition(" ") for names in lists for each in names.split(", ") if each]
    return {name: version for name, _, version in pairs}


def lines_of(section: str) -> list[str]:
    """Return the lines of a section's table, without its heading."""
    return [each for each in section.splitlines() if each.startswith("| ")][1:]


def merged(before: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return the lines of `before`, with those of `new` in the place of the same row or at the end.

    A new row about a subject that is there already comes behind the other rows of that subject.
    """
    kept = by_subject(before)
    for subject, lines in by_subject(new).items():
        kept[subject] = kept.get(subject, {}) | lines
    return [line for lines in kept.values() for line in lines.values()]


def by_subject(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the lines by their subject, then by their name."""
    found: dict[str, dict[str, str]] = {}
    subject = ""
    for line in lines:
        name = line.removeprefix("| ").split(" | ")[0]
        if not name.startswith(_SAME):
            subject = name
        found.setdefault(subject, {})[name] = line
    return found


def _result(suite: str, subject: str, line: str) -> Result:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) != 9:
        raise ValueError(
            f"{suite} in bench/RESULTS.md: 9 columns expected, not {len(cells)}: {line}"
        )
    name, ours, theirs, unit, ratio, spread, bar, reached, measured = cells
    return Result(
        suite=suite,
        subject=subject,
        name=name,
        ours=_number(ours),
        theirs=_number(theirs),
        unit=unit,
        ratio=_number(ratio.removesuffix("×")),
        spread=float(spread.removesuffix("%")) / 100 if spread else None,
        bar=bar,
        reached={"yes": True, "**no**": False}.get(reached),
        measured=measured,
    )


def _number(cell: str) -> float | None:
    """Return a figure; None for an empty cell and for words such as "not reached"."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None
