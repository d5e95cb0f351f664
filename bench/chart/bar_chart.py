"""Horizontal bars: each of our figures above those of its peers, panels of one unit each.

A panel's axis begins at zero. A whisker is as long as the spread and has our median in its middle,
because the table keeps how far apart our rounds were, not where they lay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.chart.comparison import Comparison, exact_ratio, verdict_kind
from bench.chart.frame import FOOT_HEIGHT, HEAD_HEIGHT, MARGIN, SERIES, Frame
from bench.chart.scale import figure, tick_text, ticks_to
from bench.chart.svg import WIDTH, document, element, label, text_width, whisker, wrapped

_PLOT_LEFT, _PLOT_RIGHT = 250, 600
_VERDICT_LEFT = 690
_BAR, _GAP = 15, 14
_PANEL_HEAD, _PANEL_FOOT = 30, 34
_LABEL_WIDTH = _PLOT_LEFT - MARGIN - 12


@dataclass(frozen=True, slots=True)
class Panel:
    """Comparisons with one unit, on one axis."""

    title: str
    comparisons: Sequence[Comparison]

    @property
    def height(self) -> float:
        return _PANEL_HEAD + sum(map(_group_height, self.comparisons)) + _PANEL_FOOT


def bar_chart(frame: Frame, panels: Sequence[Panel]) -> str:
    """Return the file."""
    drawn = frame.head()
    top: float = HEAD_HEIGHT
    for panel in panels:
        drawn += _panel(panel, top)
        top += panel.height
    height = top + FOOT_HEIGHT
    everything = [each for panel in panels for each in panel.comparisons]
    drawn.append(frame.foot(height, (each.measured for each in everything)))
    description = " ".join(each.sentence for each in everything)
    return document(frame.title, description, height, drawn)


def _panel(panel: Panel, top: float) -> list[str]:
    unit = panel.comparisons[0].unit
    better = "more is better" if unit.endswith("/s") else "less is better"
    ticks = ticks_to(max(map(_largest, panel.comparisons)))
    scale = (_PLOT_RIGHT - _PLOT_LEFT) / ticks[-1]
    first, last = top + _PANEL_HEAD, top + panel.height - _PANEL_FOOT
    drawn = [
        label(panel.title, MARGIN, top + 16, size=14, bold=True),
        label(f"{unit}, {better}", WIDTH - MARGIN, top + 16, kind="quiet", size=12, anchor="end"),
    ]
    for tick in ticks:
        x = _PLOT_LEFT + tick * scale
        kind = "grid" if tick else "axis"
        drawn += [
            element("line", x1=x, x2=x, y1=first - 4, y2=last, class_=kind),
            label(tick_text(tick), x, last + 15, kind="quiet", size=11, anchor="middle"),
        ]
    at = first
    for each in panel.comparisons:
        drawn += _group(each, at, scale)
        at += _group_height(each)
    return drawn


def _group(each: Comparison, top: float, scale: float) -> list[str]:
    bars = len(each.peers) + 1
    middle = top + bars * _BAR / 2
    lines = wrapped(each.label, _LABEL_WIDTH)
    drawn = [
        label(
            line, _PLOT_LEFT - 12, middle + 4 + (number - (len(lines) - 1) / 2) * 15, anchor="end"
        )
        for number, line in enumerate(lines)
    ]
    values = [each.ours, *(peer.value for peer in each.peers)]
    for number, value in enumerate(values):
        y = top + number * _BAR
        kind = SERIES[0] if not number else SERIES[each.peers[number - 1].series]
        width = max(value * scale, 1.0)
        drawn.append(
            element("rect", x=_PLOT_LEFT, y=y, width=width, height=_BAR - 2, rx=1, class_=kind)
        )
        end = value
        if not number and each.spread:
            low, end = max(value * (1 - each.spread / 2), 0), value * (1 + each.spread / 2)
            drawn.append(
                whisker(
                    _PLOT_LEFT + low * scale,
                    _PLOT_LEFT + end * scale,
                    y + _BAR / 2 - 1,
                    upright=False,
                )
            )
        drawn.append(label(figure(value), _PLOT_LEFT + end * scale + 8, y + 11, size=12))
    return drawn + _verdicts(each, top)


def _verdicts(each: Comparison, top: float) -> list[str]:
    drawn = []
    peers = each.peers
    for number, peer in enumerate(peers):
        ratio = f"{exact_ratio(each.ours, peer)} {peer.standing}"
        y = top + number * _BAR + 11 + (_BAR if len(peers) > 1 else 0)
        kind, bar = verdict_kind(peer), ""
        if peer.reached is not None:
            end = "reached ✓" if peer.reached else "missed ✗"
            bar = f"bar {_short(peer.bar)} {end}"
            if text_width(bar, 12) > WIDTH - MARGIN - _VERDICT_LEFT:
                bar = f"bar {end}"  # the page has it in full
        if len(peers) > 1:  # a line for each
            words = f"{ratio} {'✓' if peer.reached else '✗'} {_short(peer.bar)}" if bar else ratio
            drawn.append(label(words, _VERDICT_LEFT, y, kind=kind, size=12))
            continue
        own = "missed" if peer.standing == "behind" else "text"
        drawn.append(label(ratio, _VERDICT_LEFT, y, kind=own, size=12, bold=True))
        if bar:
            drawn.append(label(bar, _VERDICT_LEFT, y + _BAR, kind=kind, size=12))
    return drawn


def _short(bar: str) -> str:
    return bar.replace(">=", "≥").replace("<=", "≤").replace("x Flume", "×")


def _largest(each: Comparison) -> float:
    ours = each.ours * (1 + (each.spread or 0) / 2)
    return max(ours, *(peer.value for peer in each.peers))


def _group_height(each: Comparison) -> float:
    return max((len(each.peers) + 1) * _BAR, len(wrapped(each.label, _LABEL_WIDTH)) * 15) + _GAP
