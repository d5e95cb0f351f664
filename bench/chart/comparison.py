"""One of our figures beside those of its peers, as a chart draws it and a page says it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.chart.scale import figure, times
from bench.results import Result

_BAR_RATIO = re.compile(r"(?:≥|≤|>=|<=|at most|at least) *([\d.]+) *[×x]")
AHEAD, BEHIND, LEVEL = "ahead", "behind", "level"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A peer's side of a comparison.

    Attributes:
        series: 1 for the chart's first peer, 2 for its second.
        bar: the bar of this ratio or of our figure, as the table has it; empty without one.
    """

    series: int
    value: float
    ratio: float
    standing: str
    bar: str = ""
    reached: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Our figure, its spread, and each peer's figure."""

    label: str
    unit: str
    ours: float
    spread: float | None
    peers: tuple[Peer, ...]
    measured: str

    @property
    def sentence(self) -> str:
        """All of it in words, for readers who do not see the chart."""
        peers = "; ".join(
            f"{figure(each.value)}, {verdict(self.ours, each)}" for each in self.peers
        )
        return f"{self.label}: {figure(self.ours)} {self.unit} against {peers}."


def compared(label: str, rows: Sequence[Result]) -> Comparison | None:
    """Return our figure of the first row beside the peer's figure of each row.

    None when a row lacks one of both.
    """
    first = rows[0]
    peers = []
    for series, row in enumerate(rows, 1):
        if first.ours is None or row.theirs is None or row.ratio is None:
            return None
        peers.append(
            Peer(
                series=series,
                value=row.theirs,
                ratio=row.ratio,
                standing=standing(row.ratio, more_is_better=row.more_is_better),
                bar=row.bar,
                reached=row.reached,
            )
        )
    return _comparison(label, first, tuple(peers))


def compared_rows(label: str, ours: Result, others: Sequence[Result]) -> Comparison | None:
    """Return our figure beside the peer's of the same row, and beside further peers, which have
    rows of their own. None when a figure is missing."""
    first = compared(label, [ours])
    if first is None or any(not row.ours for row in others):
        return None
    further = []
    for series, row in enumerate(others, 2):
        assert row.ours is not None
        ratio = first.ours / row.ours
        further.append(
            Peer(
                series=series,
                value=row.ours,
                ratio=ratio,
                standing=standing(ratio, more_is_better=ours.more_is_better),
            )
        )
    return replace(first, peers=(*first.peers, *further))


def _comparison(label: str, row: Result, peers: tuple[Peer, ...]) -> Comparison | None:
    if row.ours is None:
        return None
    return Comparison(
        label=label,
        unit=row.unit,
        ours=row.ours,
        spread=row.spread,
        peers=peers,
        measured=row.measured,
    )


def standing(ratio: float, *, more_is_better: bool) -> str:
    if times(ratio) == times(1):
        return LEVEL
    return AHEAD if (ratio > 1) == more_is_better else BEHIND


def exact_ratio(ours: float, peer: Peer) -> str:
    """Return the ratio, with a digit more where rounding would hide that it misses its bar."""
    at = bar_ratio(peer.bar)
    if peer.reached is False and at is not None and times(peer.ratio) == times(at):
        return f"{ours / peer.value:.3f}×"
    return times(peer.ratio)


def bar_ratio(bar: str) -> float | None:
    """Return the ratio that a bar asks for; None for a bar on the figure itself."""
    found = _BAR_RATIO.search(bar)
    return float(found[1]) if found else None


def verdict(ours: float, peer: Peer) -> str:
    """Return the ratio, who is ahead, and whether the bar is reached, in words."""
    said = f"{exact_ratio(ours, peer)}, {peer.standing}"
    if peer.reached is None:
        return said
    return f"{said}, bar {peer.bar} {'reached' if peer.reached else 'missed'}"


def verdict_kind(peer: Peer) -> str:
    """Return the colour of the verdict."""
    if peer.reached is not None:
        return "reached" if peer.reached else "missed"
    return "missed" if peer.standing == BEHIND else "quiet"
