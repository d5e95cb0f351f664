"""`headrace lag`: how far every group is behind, and whether it keeps up."""

import json
import sys
import time
from typing import Annotated, Any

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import print_json, print_table
from headrace.cli.terminal.stop import Stop
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.lag.report import GroupLag
from headrace.lag.watch import LagWatch

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace lag                           all groups, live

  headrace lag billing audit             two of them

  headrace lag --once --json             for programs

  headrace lag --once --check            exit code 1 if a group stops, stalls or rewinds

The status comes from the last ten commits of each partition, not from thresholds. WARN: the group
reads and falls behind. ERR: STOP commits no more, STALL commits the same offset, REWIND went back.
"""
_STYLES = {0: "green", 1: "yellow", 2: "bold red"}
_HEADINGS = ("group", "state", "topics", "partitions", "lag", "status", "worst")
_MOST_NAMES = 3


@command.command(epilog=epilog(_EXAMPLES))
def lag(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP...]")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once, and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON: one list, or without --once a list per line.")
    ] = False,
    partitions: Annotated[
        bool, typer.Option("-p", "--partitions", help="A row per partition.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="With --once: exit 1 when a group is ERR.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Seconds between two requests.")
    ] = 2.0,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Show the lag of consumer groups, and a status from their last commits."""
    with connect(brokers, setting) as pool:
        watch = LagWatch(pool.settings)
        try:
            if once:
                lags = _read(watch, pool, groups)
                _print(lags, as_json=as_json, partitions=partitions)
                if check and any(each.status.severity > 1 for each in lags):
                    raise typer.Exit(1)
            else:
                _follow(watch, pool, groups, interval, as_json=as_json, partitions=partitions)
        finally:
            watch.close()


def _read(watch: LagWatch, pool: ConnectionPool, names: list[str] | None) -> list[GroupLag]:
    lags = watch.look(pool)
    if not names:
        return lags
    missing = sorted(set(names) - {each.group for each in lags})
    if missing:
        raise ClientError(f"there is no group {missing[0]}: headrace group list shows the groups")
    return [each for each in lags if each.group in names]


def _print(lags: list[GroupLag], *, as_json: bool, partitions: bool) -> None:
    if as_json:
        print_json([each.as_json() for each in lags])
    elif partitions:
        print_table(_PARTITION_HEADINGS, _partition_rows(lags))
    else:
        print_table(_HEADINGS, [_row(each) for each in lags])


def _follow(
    watch: LagWatch,
    pool: ConnectionPool,
    names: list[str] | None,
    interval: float,
    *,
    as_json: bool,
    partitions: bool,
) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    plain = as_json or not console.is_terminal
    with (
        Stop() as stop,
        Live(console=console, auto_refresh=False, screen=not plain) as live,
    ):
        while not stop.requested:
            lags = _read(watch, pool, names)
            if as_json:
                sys.stdout.write(json.dumps([each.as_json() for each in lags]) + "\n")
                sys.stdout.flush()
            elif plain:
                _print(lags, as_json=False, partitions=partitions)
                sys.stdout.flush()
            else:
                live.update(_table(lags, partitions), refresh=True)
            try:
                with stop.waiting():
                    time.sleep(interval)
            except KeyboardInterrupt:
                break


_PARTITION_HEADINGS = ("group", "topic", "partition", "committed", "end", "lag", "status")


def _partition_rows(lags: list[GroupLag]) -> list[tuple[Any, ...]]:
    return [
        (
            group.group,
            each.partition.topic,
            each.partition.partition,
            each.committed,
            each.end if each.end >= 0 else None,
            each.lag,
            str(each.status),
        )
        for group in lags
        for each in group.partitions
    ]


def _row(group: GroupLag) -> tuple[Any, ...]:
    topics = group.topics
    shown = ",".join(topics[:_MOST_NAMES]) + (",…" if len(topics) > _MOST_NAMES else "")
    worst = max(group.partitions, key=lambda each: (each.status.severity, each.lag), default=None)
    worst_text = "-" if worst is None or not worst.lag else f"{worst.partition} {worst.status}"
    return (
        group.group,
        group.state,
        shown or "-",
        len(group.partitions),
        group.lag,
        str(group.status),
        worst_text,
    )


def _table(lags: list[GroupLag], partitions: bool) -> Any:
    """Return the live table, the worst group on top: a small terminal shows it too."""
    from rich.table import Table
    from rich.text import Text

    headings = _PARTITION_HEADINGS if partitions else _HEADINGS
    table = Table(
        title=f"{len(lags)} groups · {time.strftime('%H:%M:%S')} · Ctrl-C ends",
        title_justify="left",
    )
    for name in headings:
        numeric = name in ("partitions", "partition", "committed", "end", "lag")
        table.add_column(name.capitalize(), justify="right" if numeric else "left")
    worst_first = sorted(lags, key=lambda each: (-each.status.severity, -each.lag, each.group))
    rows = _partition_rows(worst_first) if partitions else [_row(each) for each in worst_first]
    at = headings.index("status")
    for row in rows:
        cells = [
            Text(f"{cell:,}" if isinstance(cell, int) else "-" if cell is None else str(cell))
            for cell in row
        ]
        cells[at].stylize(_style(str(row[at])))
        table.add_row(*cells)
    return table


def _style(status: str) -> str:
    from headrace.lag.status import LagStatus

    return _STYLES[LagStatus(status).severity]
