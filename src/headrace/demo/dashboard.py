"""The live table in the terminal."""

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.demo.pulse import Pulse

_ROWS = 10
_BAR = 24
_RISING = 1.25
_FALLING = 0.8
_FLOW = (
    "website ──> [b]page-views[/b] ──> Spark: views per page, rolling window ──> "
    "[b]page-counts[/b] ──> this table"
)


def dashboard(pulse: Pulse) -> RenderableType:
    """Draw one moment. The newest window that is over is shown, so that counts stand still."""
    return Panel(
        Group(Text.from_markup(_FLOW), Text(), _facts(pulse), Text(), _pages(pulse)),
        title="Headrace",
        subtitle=_subtitle(pulse),
        box=box.ROUNDED,
        padding=(1, 2),
    )


def _facts(pulse: Pulse) -> Table:
    facts = Table.grid(padding=(0, 3))
    rate = pulse.written / max(pulse.running_seconds, 0.1)
    facts.add_row("broker", pulse.address, "written", f"{pulse.written:,} views, {rate:,.0f}/s")
    batch = "starting ..." if pulse.batch_ms is None else f"{pulse.batch_ms / 1000:.1f} s a batch"
    facts.add_row("Spark", batch, "counted", f"{pulse.counted:,} views")
    return facts


def _pages(pulse: Pulse) -> RenderableType:
    if not pulse.pages:
        return Text("The first window is not over yet ...", style="dim")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("page")
    table.add_column(f"views in {pulse.window_seconds} s", justify="right")
    table.add_column("")
    table.add_column("against the window before", justify="right")
    most = pulse.pages.most_common(1)[0][1]
    for page, views in pulse.pages.most_common(_ROWS):
        bar = "█" * max(1, round(_BAR * views / most))
        table.add_row(
            page, f"{views:,}", Text(bar, style="cyan"), _trend(views, pulse.before[page])
        )
    return table


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
