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
_RISING = 1.25
_FALLING = 0.8
_PICTURE = """\
website ─┬─ Kafka client ─> [b]page-views[/b] ─┬─> Spark: rolling counts ─────> [b]page-counts[/b]
         │                  [b]profiles[/b] ───┼─> topology: joined by user ──> [b]country-views[/b]
         │                              └─> Parquet by hour
         └─ access.log ── agent ──> [b]access-log[/b] ──> topology ──> [b]page-minutes, alerts[/b]
"""


def dashboard(pulse: Pulse) -> RenderableType:
    """Draw one moment. The newest window that is over is shown, so that counts stand still."""
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


def _facts(pulse: Pulse) -> Table:
    facts = Table.grid(padding=(0, 3))
    rate = pulse.written / max(pulse.running_seconds, 0.1)
    facts.add_row("broker", pulse.address, "written", f"{pulse.written:,} views, {rate:,.0f}/s")
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
    return told.append(f" of {audit.views:,} views at {audit.tiers} tiers", style="default")


def _pages(pulse: Pulse) -> RenderableType:
    if not pulse.trend.pages:
        return Text("The first window is not over yet ...", style="dim")
    table = _table("page", f"last {pulse.window_seconds} s", "", "trend")
    for page, views in pulse.trend.pages.most_common(_PAGES):
        trend = _trend(views, pulse.trend.before[page])
        table.add_row(page, f"{views:,}", _bar(pulse.trend.pages, views, _PAGE_BAR), trend)
    return table


def _flows(pulse: Pulse) -> RenderableType:
    table = _table("flow on Spark", "read", "a batch")
    for flow in pulse.flows:
        batch = "starting" if flow.batch_ms is None else f"{flow.batch_ms / 1000:.1f} s"
        table.add_row(flow.name, f"{flow.read:,}", batch)
    return table


def _countries(pulse: Pulse) -> RenderableType:
    if not pulse.countries:
        return Text()
    table = _table("country", "views", "")
    for country, views in pulse.countries.most_common(_COUNTRIES):
        table.add_row(country, f"{views:,}", _bar(pulse.countries, views, _COUNTRY_BAR))
    return table


def _alerts(pulse: Pulse) -> RenderableType:
    lines = [
        Text(
            f"! {datetime.fromtimestamp(alert.at_ms / 1000):%H:%M:%S}  {alert.page} keeps failing",
            style="red",
        )
        for alert in pulse.alerts[-_ALERTS:]
    ]
    return Group(*lines)


def _table(first: str, number: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    table.add_column(number, justify="right", no_wrap=True)
    for each in others:
        table.add_column(each, justify="right" if each else "left", no_wrap=True)
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
