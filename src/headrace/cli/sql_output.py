"""Results of SQL in the terminal: tables, a live table, or JSON lines."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.terminal.output import print_table
from headrace.cli.terminal.output_format import OutputFormat
from headrace.flow.sql.engine import QueryResult, ShowRows

_SHOWN_ROWS = 40


class SqlOutput:
    """Prints results: EMIT as a live table on a terminal, elsewhere as a line per row."""

    def __init__(self, style: OutputFormat, console: Console | None = None) -> None:
        self._style = style
        self._console = console or Console()

    def answer(self, answer: QueryResult) -> None:
        if answer.columns and self._style is OutputFormat.JSON:
            self._lines(answer.columns, answer.rows)
        elif answer.columns:
            rows = [[plain(each) for each in row] for row in answer.rows]
            print_table(answer.columns, rows, as_named=True)
        if answer.message is not None and self._style is not OutputFormat.JSON:
            print(answer.message, flush=True)

    @contextmanager
    def emitting(self) -> Iterator[ShowRows]:
        """Yield the function that shows rows, while a query emits them."""
        if self._style is OutputFormat.JSON or not self._console.is_terminal:
            yield lambda columns, rows, whole: self._lines(columns, rows)
            return
        kept: list[Sequence[Any]] = []
        # Leave room for the heading, the line with the count, and the prompt below.
        most = max(1, min(_SHOWN_ROWS, self._console.height - 4))
        waiting = Text("Waiting for rows; Ctrl-C stops.", style="dim")
        with Live(waiting, console=self._console, auto_refresh=False) as live:
            live.refresh()

            def show(columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: bool) -> None:
                if whole:
                    kept.clear()
                kept.extend(rows)
                del kept[: max(0, len(kept) - (len(rows) if whole else most))]
                live.update(_table(columns, kept, most), refresh=True)

            yield show

    def _lines(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            print(json.dumps(named, default=plain, ensure_ascii=False), flush=True)


def plain(value: Any) -> Any:
    """Return a value of Spark as text or JSON can hold it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int) -> RenderableType:
    """Return a table with at most `most` rows."""
    table = Table(box=None, pad_edge=False)
    for at, name in enumerate(columns):
        numbers = all(isinstance(row[at], int | float | None) for row in rows)
        table.add_column(Text(name), justify="right" if numbers else "left")
    for row in rows[:most]:
        # Text, so that rich does not read the content of a record as markup.
        table.add_row(*(Text("-" if each is None else str(plain(each))) for each in row))
    if len(rows) <= most:
        return table
    return Group(table, Text(f"{most:,} of {len(rows):,} rows", style="dim"))
