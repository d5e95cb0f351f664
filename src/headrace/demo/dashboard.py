"""Draws the status of the demo in the terminal."""

from collections import Counter
from datetime import datetime

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.demo.demo_audit import AuditStatus
from headrace.demo.demo_status import DemoStatus

_PAGES = 10
_COUNTRIES = 5
_ALERTS = 3
_PAGE_BAR = 10
_COUNTRY_BAR = 10
# The terminal that the whole picture needs, and the width of two tables side by side.
_ROOMY_WIDTH, _ROOMY_HEIGHT = 98, 36
_PAIR_WIDTH = 78
# The lines of a table besides its rows, and of the frame with the line below it.
_HEAD_LINES, _FRAME_LINES = 4, 3
_RISING = 1.25
_FALLING = 0.8
_TREND_WIDTH = len("▲ +100%")
_PICTURE = """\
website ─┬─ Kafka client ─> [b]page-views[/b] ─┬─> Spark: rolling counts ─────> [b]page-counts[/b]
         │                  [b]profiles[/b] ───┼─> topology: joined by user ──> [b]country-views[/b]
         │                              └─> Parquet by hour
         └─ access.log ── agent ──> [b]access-log[/b] ──> topology ──> [b]page-minutes, alerts[/b]
"""


def dashboard(status: DemoStatus, *, width: int = 120, height: int = 50) -> RenderableType:
    """Draw one status. It shows the newest complete window, whose counts no longer change.

    Args:
        width, height: of the terminal. A small one leaves out what matters least.
    """
    if width < _ROOMY_WIDTH or height < _ROOMY_HEIGHT:
        return _small(status, width, height)
    below = Table.grid(padding=(0, 4))
    below.add_row(
        _pages(status), Group(_flows(status), Text(), _countries(status), _alerts(status))
    )
    return Panel(
        Group(Text.from_markup(_PICTURE), _facts(status), Text(), below),
        title="Headrace",
        subtitle=_subtitle(status),
        box=box.ROUNDED,
        padding=(1, 2),
        expand=False,
    )


def _small(status: DemoStatus, width: int, height: int) -> RenderableType:
    facts = _facts(status, beside=False)
    left = height - facts.row_count - _FRAME_LINES
    pages, flows = _pages(status, left - _HEAD_LINES, bars=False), _flows(status)
    if width >= _PAIR_WIDTH:
        room = left - 2 * _HEAD_LINES - len(status.flows) - 1
        body: RenderableType = Table.grid(padding=(0, 3))
        assert isinstance(body, Table)
        others = [flows, _countries(status, room)] if room > 1 else [flows]
        body.add_row(pages, Group(*others, _alerts(status, 1)))
    else:
        rows = left - 2 * _HEAD_LINES - len(status.flows) - 1
        body = Group(_pages(status, rows, bars=False), flows, _alerts(status, 1))
    return Panel(
        Group(facts, body),
        title="Headrace",
        subtitle=_subtitle(status),
        box=box.ROUNDED,
        padding=(0, 1),
        expand=False,
    )


def _facts(status: DemoStatus, *, beside: bool = True) -> Table:
    facts = Table.grid(padding=(0, 3))
    rate = status.written / max(status.running_seconds, 0.1)
    written = "written", f"{status.written:,} views, {rate:,.0f}/s"
    if beside:
        facts.add_row("broker", status.address, *written)
    else:
        facts.add_row(*written)
        facts.add_row("broker", status.address)
    if status.console:
        facts.add_row("console", Text(status.console, style="bold"))
    if status.audit is not None and status.audit.views:
        facts.add_row("audit", _audit(status.audit))
    return facts


def _audit(audit: AuditStatus) -> Text:
    whole = audit.percent >= 100
    # Cut off, not rounded: 99.999 must not look like 100.
    percent = "100 %" if whole else f"{int(audit.percent * 100) / 100:.2f} %"
    line = Text(percent, style="green" if whole else "red")
    tiers = "1 tier" if audit.tiers == 1 else f"{audit.tiers} tiers"
    return line.append(f" of {audit.views:,} views at {tiers}", style="default")


def _pages(status: DemoStatus, rows: int = _PAGES, *, bars: bool = True) -> RenderableType:
    if not status.trend.pages:
        return Text("The first window is not over yet ...", style="dim")
    columns = [f"last {status.window_seconds} s", *([""] if bars else []), "trend"]
    table = _table("page", *columns)
    for page, views in status.trend.pages.most_common(min(max(rows, 1), _PAGES)):
        trend = _trend(views, status.trend.before[page])
        bar = [_bar(status.trend.pages, views, _PAGE_BAR)] if bars else []
        table.add_row(page, f"{views:,}", *bar, trend)
    return table


def _flows(status: DemoStatus) -> RenderableType:
    table = _table("flow on Spark", "read", "a batch")
    for flow in status.flows:
        batch = "starting" if flow.batch_ms is None else f"{flow.batch_ms / 1000:.1f} s"
        table.add_row(flow.name, f"{flow.read:,}", batch)
    return table


def _countries(status: DemoStatus, rows: int = _COUNTRIES) -> RenderableType:
    if not status.countries:
        return Text()
    table = _table("country", "views", "")
    for country, views in status.countries.most_common(min(rows, _COUNTRIES)):
        table.add_row(country, f"{views:,}", _bar(status.countries, views, _COUNTRY_BAR))
    return table


def _alerts(status: DemoStatus, most: int = _ALERTS) -> RenderableType:
    lines = [
        Text(
            f"! {datetime.fromtimestamp(alert.at_ms / 1000):%H:%M:%S}  {alert.page} keeps failing",
            style="red",
        )
        for alert in status.alerts[-most:]
    ]
    return Group(*lines)


def _table(first: str, number: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    table.add_column(number, justify="right", no_wrap=True)
    for each in others:
        # A name can be cut off and still be read; a number cannot.
        least = _TREND_WIDTH if each == "trend" else None
        table.add_column(each, justify="right" if each else "left", no_wrap=True, min_width=least)
    return table


def _bar(counts: Counter[str], views: int, width: int) -> Text:
    most = counts.most_common(1)[0][1]
    return Text("█" * max(1, round(width * views / most)), style="cyan")


def _trend(views: int, before: int) -> Text:
    if before == 0:
        return Text("new", style="dim")
    change = views / before
    if change >= _RISING:
        return Text(f"▲ {change - 1:+.0%}", style="green")
    return Text(f"{change - 1:+.0%}", style="red" if change <= _FALLING else "dim")


def _subtitle(status: DemoStatus) -> str:
    if status.seconds_left is None:
        return "Ctrl-C stops everything"
    return f"{status.seconds_left:.0f} s to go"
