"""The live picture in the terminal."""

from collections import Counter
from datetime import datetime

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.demo.audit_board import AuditPulse
from headrace.demo.pulse import Pulse

_PAGES = 10
_COUNTRIES = 5
_ALERTS = 3
_PAGE_BAR = 10
_COUNTRY_BAR = 10
# What the whole picture needs, and what two tables beside each other need.
_ROOMY_WIDTH, _ROOMY_HEIGHT = 98, 36
_PAIR_WIDTH = 78
# Lines that a table takes besides its rows; and a frame, with the line below it.
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


def dashboard(pulse: Pulse, *, width: int = 120, height: int = 50) -> RenderableType:
    """Draw one moment. The newest window that is over is shown, so that counts stand still.

    Args:
        width, height: of the terminal: in a small one what matters least is left out.
    """
    if width < _ROOMY_WIDTH or height < _ROOMY_HEIGHT:
        return _small(pulse, width, height)
    below = Table.grid(padding=(0, 4))
    below.add_row(_pages(pulse), Group(_flows(pulse), Text(), _countries(pulse), _alerts(pulse)))
    return Panel(
        Group(Text.from_markup(_PICTURE), _facts(pulse), Text(), below),
        title="Headrace",
        subtitle=_subtitle(pulse),
        box=box.ROUNDED,
        padding=(1, 2),
        expand=False,
    )


def _small(pulse: Pulse, width: int, height: int) -> RenderableType:
    facts = _facts(pulse, beside=False)
    left = height - facts.row_count - _FRAME_LINES
    pages, flows = _pages(pulse, left - _HEAD_LINES, bars=False), _flows(pulse)
    if width >= _PAIR_WIDTH:
        room = left - 2 * _HEAD_LINES - len(pulse.flows) - 1
        body: RenderableType = Table.grid(padding=(0, 3))
        assert isinstance(body, Table)
        others = [flows, _countries(pulse, room)] if room > 1 else [flows]
        body.add_row(pages, Group(*others, _alerts(pulse, 1)))
    else:
        rows = left - 2 * _HEAD_LINES - len(pulse.flows) - 1
        body = Group(_pages(pulse, rows, bars=False), flows, _alerts(pulse, 1))
    return Panel(
        Group(facts, body),
        title="Headrace",
        subtitle=_subtitle(pulse),
        box=box.ROUNDED,
        padding=(0, 1),
        expand=False,
    )


def _facts(pulse: Pulse, *, beside: bool = True) -> Table:
    facts = Table.grid(padding=(0, 3))
    rate = pulse.written / max(pulse.running_seconds, 0.1)
    written = "written", f"{pulse.written:,} views, {rate:,.0f}/s"
    if beside:
        facts.add_row("broker", pulse.address, *written)
    else:
        facts.add_row(*written)
        facts.add_row("broker", pulse.address)
    if pulse.console:
        facts.add_row("console", Text(pulse.console, style="bold"))
    if pulse.audit is not None and pulse.audit.views:
        facts.add_row("audit", _audit(pulse.audit))
    return facts


def _audit(audit: AuditPulse) -> Text:
    whole = audit.percent >= 100
    # Cut off, not rounded: what is not all must not look like it.
    percent = "100 %" if whole else f"{int(audit.percent * 100) / 100:.2f} %"
    told = Text(percent, style="green" if whole else "red")
    tiers = "1 tier" if audit.tiers == 1 else f"{audit.tiers} tiers"
    return told.append(f" of {audit.views:,} views at {tiers}", style="default")


def _pages(pulse: Pulse, rows: int = _PAGES, *, bars: bool = True) -> RenderableType:
    if not pulse.trend.pages:
        return Text("The first window is not over yet ...", style="dim")
    columns = [f"last {pulse.window_seconds} s", *([""] if bars else []), "trend"]
    table = _table("page", *columns)
    for page, views in pulse.trend.pages.most_common(min(max(rows, 1), _PAGES)):
        trend = _trend(views, pulse.trend.before[page])
        bar = [_bar(pulse.trend.pages, views, _PAGE_BAR)] if bars else []
        table.add_row(page, f"{views:,}", *bar, trend)
    return table


def _flows(pulse: Pulse) -> RenderableType:
    table = _table("flow on Spark", "read", "a batch")
    for flow in pulse.flows:
        batch = "starting" if flow.batch_ms is None else f"{flow.batch_ms / 1000:.1f} s"
        table.add_row(flow.name, f"{flow.read:,}", batch)
    return table


def _countries(pulse: Pulse, rows: int = _COUNTRIES) -> RenderableType:
    if not pulse.countries:
        return Text()
    table = _table("country", "views", "")
    for country, views in pulse.countries.most_common(min(rows, _COUNTRIES)):
        table.add_row(country, f"{views:,}", _bar(pulse.countries, views, _COUNTRY_BAR))
    return table


def _alerts(pulse: Pulse, most: int = _ALERTS) -> RenderableType:
    lines = [
        Text(
            f"! {datetime.fromtimestamp(alert.at_ms / 1000):%H:%M:%S}  {alert.page} keeps failing",
            style="red",
        )
        for alert in pulse.alerts[-most:]
    ]
    return Group(*lines)


def _table(first: str, number: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    table.add_column(number, justify="right", no_wrap=True)
    for each in others:
        # Of a name that is cut off enough can be read; of a number nothing.
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


def _subtitle(pulse: Pulse) -> str:
    if pulse.seconds_left is None:
        return "Ctrl-C stops everything"
    return f"{pulse.seconds_left:.0f} s to go"
