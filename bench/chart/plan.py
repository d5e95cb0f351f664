"""What a chart is made of: its panels, and the rows of the table in them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pick:
    """A row of the table, and what to call it beside the axis.

    Attributes:
        subject: the row that "the same" in `name` is about.
        second: the row that has the second peer's figure.
        peer_rows: rows whose own figures are those of further peers.
    """

    label: str
    suite: str
    name: str
    subject: str | None = None
    second: str | None = None
    peer_rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PanelPlan:
    title: str
    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPlan:
    """One chart and its paragraph.

    Attributes:
        file: the name of the SVG file, without its ending.
        what: what was measured, in sentences.
        peers: as `Results.versions` names them, in the order of the legend.
        command: what measures its rows.
        axis: what grows from point to point, for a chart of lines; empty for bars.
    """

    file: str
    heading: str
    what: str
    peers: tuple[str, ...]
    panels: tuple[PanelPlan, ...]
    command: str
    axis: str = ""
