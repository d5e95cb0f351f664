"""Answers of SQL in the terminal: tables, a live table, or JSON lines."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.output import print_table
from headrace.cli.output_format import Format
from headrace.flow.sql.engine import Answer, ShowRows

_SHOWN_ROWS = 40


class SqlOutput:
    """Prints answers. A live table is for terminals; elsewhere every row becomes a line."""

    def __init__(self, style: Format, console: Console | None = None) -> None:
        self._style = style
        self._console = console or Console()

    def answer(self, answer: Answer) -> None:
        if answer.columns and self._style is Format.JSON:
            self._lines(answer.columns, answer.rows)
        elif answer.columns:
            print_table(answer.columns, [[plain(each) for each in row] for row in answer.rows])
        if answer.message is not None and self._style is not Format.JSON:
            print(answer.message, flush=True)

    @contextmanager
    def emitting(self) -> Iterator[ShowRows]:
        """What to show rows with, while a query emits them."""
        if self._style is Format.JSON or not self._console.is_terminal:
            yield lambda columns, rows, whole: self._lines(columns, rows)
            return
        kept: list[Sequence[Any]] = []
        with Live(console=self._console, auto_refresh=False) as live:

            def show(columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: bool) -> None:
                if whole:
                    kept.clear()
                kept.extend(rows)
                del kept[: max(0, len(kept) - (len(rows) if whole else _SHOWN_ROWS))]
                live.update(_table(columns, kept), refresh=True)

            yield show

    def _lines(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            print(json.dumps(named, default=plain, ensure_ascii=False), flush=True)


def plain(value: Any) -> Any:
    """A value of Spark's as text or JSON has it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    table = Table(box=None)
    for name in columns:
        table.add_column(Text(name))
    for row in rows[:_SHOWN_ROWS]:
        # Text, so that what a record holds is never taken for markup.
        table.add_row(*(Text("-" if each is None else str(plain(each))) for each in row))
    if len(rows) > _SHOWN_ROWS:
        table.caption = f"{len(rows):,} rows"
    return table
