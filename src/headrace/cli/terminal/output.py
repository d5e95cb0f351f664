"""Results on standard output: a table for people, JSON for programs."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from headrace.cli.terminal.output_format import OutputFormat
from headrace.client.error import BrokerError, ClientError

OK = "OK"


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], *, as_named: bool = False
) -> None:
    """Print a table with headings in capitals, a dash for None, and numbers right-aligned.

    Args:
        as_named: print the headings as they are, because the user chose them.
    """
    texts = [[_cell(value) for value in row] for row in rows]
    lines = [[name if as_named else _heading(name) for name in headings], *texts]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    right_aligned = [
        any(line[column] != "-" for line in texts)
        and all(_is_number(line[column]) for line in texts)
        for column in range(len(headings))
    ]
    for line in lines:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, right_aligned, strict=True)
        ]
        print("  ".join(cells).rstrip())


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print the fields of one thing, one per line."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print(f"{_heading(name).ljust(width)}  {_cell(value)}".rstrip())


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    print()


def print_rows(style: OutputFormat, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print things of one kind: a table, or a JSON list of objects keyed by the headings."""
    if style is OutputFormat.JSON:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        print_table(headings, rows)


def status(outcome: Any) -> str:
    """Return OK, or the error of one item."""
    if isinstance(outcome, BrokerError):
        return f"{outcome.name}: {outcome}"
    return str(outcome) if isinstance(outcome, ClientError) else OK


def finish(outcomes: Iterable[Any]) -> None:
    """End the command: exit 1 if any item failed."""
    if any(isinstance(outcome, ClientError) for outcome in outcomes):
        raise typer.Exit(1)


def _heading(name: str) -> str:
    return name.upper().replace("_", "-")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(str, value)) + "]"
    return str(value)


def _is_number(text: str) -> bool:
    return text == "-" or text.lstrip("-").isdigit()
