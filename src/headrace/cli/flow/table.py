"""A flow's figures: a line, or a table with a row per component."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from headrace.flow.monitoring.metrics import FlowFigures

HEADINGS = ("component", "executed", "emitted", "failed", "latency_ms", "capacity")


def line_of(figures: FlowFigures) -> str:
    """Return the figures of the last batch in a line."""
    if figures.batch is None:
        return "no batch yet"
    parts = [
        f"batch {figures.batch}",
        f"{figures.records:,} records",
        f"{figures.records_per_second:,.0f} records/s",
        f"{figures.batch_ms:,} ms",
    ]
    if figures.state_rows:
        parts.append(f"state {figures.state_bytes / 1_000_000:,.1f} MB")
    if figures.lag is not None:
        parts.append(f"lag {figures.lag:,}")
    return ", ".join(parts)


def rows_of(figures: FlowFigures) -> list[tuple[str, ...]]:
    """Return the figures of the components as texts, in the order of `HEADINGS`."""
    return [
        (
            each.component,
            f"{each.executed:,}",
            f"{each.emitted:,}",
            f"{each.failed:,}",
            f"{each.latency_ms:.3f}",
            f"{each.capacity:.2f}",
        )
        for each in figures.components
    ]


def table_of(figures: FlowFigures) -> Group:
    """Return a table for a terminal. A component that fails or slows the others down is
    coloured."""
    table = Table(box=None)
    for name in HEADINGS:
        table.add_column(name.replace("_", " "), justify="left" if name == "component" else "right")
    for each, row in zip(figures.components, rows_of(figures), strict=True):
        marked = "red" if each.failed else "yellow" if each.capacity > 0.8 else ""
        # Text, so that rich does not read a name as markup.
        table.add_row(*(Text(cell) for cell in row), style=marked)
    head = Text(f"{figures.plan}: {line_of(figures)}")
    return Group(head, table) if figures.components else Group(head)
