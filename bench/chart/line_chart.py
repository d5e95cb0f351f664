"""A line per side over a growing size, and under it the figures, their ratios and their bars."""

from collections.abc import Callable, Sequence
from math import log10

from bench.chart.bar_chart import Panel
from bench.chart.comparison import BEHIND, Comparison, exact_ratio
from bench.chart.frame import FOOT_HEIGHT, HEAD_HEIGHT, MARGIN, Frame
from bench.chart.scale import figure, steps_around, tick_text, ticks_to
from bench.chart.svg import WIDTH, document, element, label, whisker

_LEFT, _RIGHT = 205, WIDTH - 70
_LOGARITHMIC_FROM = 30
"""How many times the smallest figure the largest is, when the axis is no longer linear."""
_PLOT = 220
_TABLE_ROW = 19
_PANEL_HEAD, _PANEL_FOOT = 34, 20


def line_chart(frame: Frame, panels: Sequence[Panel], axis: str) -> str:
    """Return the file; `axis` says what grows, and each comparison's label how large it is."""
    drawn = frame.head()
    height: float = HEAD_HEIGHT
    for panel in panels:
        drawn += _panel(frame, panel, height, axis)
        height += _PANEL_HEAD + _PLOT + 5 * _TABLE_ROW + _PANEL_FOOT
    height += FOOT_HEIGHT
    everything = [each for panel in panels for each in panel.comparisons]
    drawn.append(frame.foot(height, (each.measured for each in everything)))
    description = " ".join(f"{axis} {each.sentence}" for each in everything)
    return document(frame.title, description, height, drawn)


def _panel(frame: Frame, panel: Panel, top: float, axis: str) -> list[str]:
    points = panel.comparisons
    unit = points[0].unit
    better = "more is better" if unit.endswith("/s") else "less is better"
    base = top + _PANEL_HEAD + _PLOT
    ticks, height, linear = _axis(points)
    drawn = [
        label(panel.title, MARGIN, top + 16, size=14, bold=True),
        label(
            f"{unit}, {better}{'' if linear else ', logarithmic axis'}",
            WIDTH - MARGIN,
            top + 16,
            kind="quiet",
            size=12,
            anchor="end",
        ),
    ]
    for number, tick in enumerate(ticks):
        y = base - height(tick)
        kind = "grid" if number else "axis"
        drawn += [
            element("line", x1=_LEFT - 40, x2=_RIGHT + 40, y1=y, y2=y, class_=kind),
            label(tick_text(tick), _LEFT - 46, y + 4, kind="quiet", size=11, anchor="end"),
        ]
    places = _places(len(points))
    for kind, values in (
        ("peer", [each.peers[0].value for each in points]),
        ("ours", [each.ours for each in points]),
    ):
        heights = [base - height(value) for value in values]
        route = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(places, heights, strict=True))
        drawn.append(element("polyline", points=route, class_=f"line {kind}"))
        drawn += [
            element("circle", cx=x, cy=y, r=4.5, class_=kind)
            for x, y in zip(places, heights, strict=True)
        ]
    for x, each in zip(places, points, strict=True):
        if each.spread:
            low, high = each.ours * (1 - each.spread / 2), each.ours * (1 + each.spread / 2)
            drawn.append(whisker(base - height(low), base - height(high), x, upright=True))
    return drawn + _table(frame, points, places, base, axis)


def _axis(points: Sequence[Comparison]) -> tuple[list[float], Callable[[float], float], bool]:
    """Return the ticks, how high a figure is above the base, and whether the axis is linear."""
    values = [value for each in points for value in (each.ours, each.peers[0].value)]
    largest = max(*values, *(each.ours * (1 + (each.spread or 0) / 2) for each in points))
    if max(values) < _LOGARITHMIC_FROM * min(values):
        ticks = ticks_to(largest)
        return ticks, lambda value: max(value, 0) / ticks[-1] * _PLOT, True
    ticks = steps_around(min(values), largest)
    decades = log10(ticks[-1] / ticks[0])
    return ticks, lambda value: log10(max(value, ticks[0]) / ticks[0]) / decades * _PLOT, False


def _table(
    frame: Frame, points: Sequence[Comparison], places: Sequence[float], base: float, axis: str
) -> list[str]:
    """The figures under the axis: nothing overlaps there, however close the lines are."""
    names = (axis, *frame.series[:2])
    drawn = [
        label(name, MARGIN, base + (row + 1) * _TABLE_ROW, kind="quiet", size=11)
        for row, name in enumerate((*names, "ratio", "bar"))
    ]
    for x, each in zip(places, points, strict=True):
        peer = each.peers[0]
        ratio_kind = "missed" if peer.standing == BEHIND else "text"
        bar, bar_kind = "", "quiet"
        if peer.reached is not None:
            bar = f"{peer.bar} {'✓' if peer.reached else '✗ missed'}"
            bar_kind = "reached" if peer.reached else "missed"
        cells = (
            (each.label, "text"),
            (figure(each.ours), "text"),
            (figure(peer.value), "text"),
            (f"{exact_ratio(each.ours, peer)} {peer.standing}", ratio_kind),
            (bar, bar_kind),
        )
        drawn += [
            label(
                words,
                x,
                base + (row + 1) * _TABLE_ROW,
                kind=kind,
                size=12,
                anchor="middle",
                bold=row == 0,
            )
            for row, (words, kind) in enumerate(cells)
            if words
        ]
    return drawn


def _places(count: int) -> list[float]:
    """Return evenly spaced places: sizes grow by a factor from one to the next."""
    if count == 1:
        return [(_LEFT + _RIGHT) / 2]
    return [_LEFT + number * (_RIGHT - _LEFT) / (count - 1) for number in range(count)]
