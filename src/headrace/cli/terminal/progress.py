"""A bar for long work, on standard error, for a person who waits."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], object]


@contextmanager
def progress(label: str, total: int | None, *, unit: str = "records") -> Iterator[Advance]:
    """Show a bar while standard error is a terminal and standard output is none: there it would
    run through the output.

    Args:
        total: how much there is, if that is known.
        unit: `records`, or `bytes`, which are shown in their multiples.

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
