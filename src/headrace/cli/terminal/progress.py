"""A progress bar on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], object]


@contextmanager
def progress(label: str, total: int | None, *, unit: str = "records") -> Iterator[Advance]:
    """Show a progress bar, and yield the function that moves it on.

    There is no bar when standard error is not a terminal, nor when standard output is one: the bar
    would run through the output.

    Args:
        total: how much there is to do, if that is known.
        unit: `records`, or `bytes`, which are shown as kB, MB and so on.

    Example:
        with progress("producing", 10_000) as advance:
            advance(500)
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        Remaining(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)
