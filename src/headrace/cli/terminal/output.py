"""Answers on standard output: a table for people, JSON for programs."""

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
    """Columns under headings in capitals, with dashes; numbers to the right.

    Args:
        as_named: leave the headings as they are: they are names of the user's own.
    """
    texts = [[_cell(value) for value in row] for row in rows]
    lines = [[name if as_named else _heading(name) for name in headings], *texts]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    right = [
        any(line[column] != "-" for line in texts)
        and all(_is_number(line[column]) for line in texts)
        for column in range(len(headings))
    ]
    for line in lines:
        cells = [
            text.rjust(width) if to_the_right else text.ljust(width)
            for text, width, to_the_right in zip(line, widths, right, strict=True)
        ]
        print("  ".join(cells).rstrip())


def print_fields(fields: Mapping[str, Any]) -> None:
    """One thing: a name and a value a line."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print(f"{_heading(name).ljust(width)}  {_cell(value)}".rstrip())


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    print()


def print_rows(style: OutputFormat, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A list of things of one kind. In JSON each is an object with the headings as its keys."""
    if style is OutputFormat.JSON:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        print_table(headings, rows)


def status(outcome: Any) -> str:
    """OK, or what went wrong with one item."""
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
