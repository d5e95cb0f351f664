"""Every ratio of the table as a point on one logarithmic axis, also where we are behind."""

from collections.abc import Callable, Sequence
from math import isclose, log10

from bench.chart.comparison import BEHIND, Comparison, bar_ratio, exact_ratio, verdict_kind
from bench.chart.frame import FOOT_HEIGHT, MARGIN, Frame
from bench.chart.scale import steps_around
from bench.chart.svg import WIDTH, document, element, label, whisker, wrapped

_LEFT, _RIGHT = 420, 690
_WORDS = 712
_HEAD = 108
_LINE, _GAP = 14, 8
_SIZE = 11


def ratio_chart(frame: Frame, rows: Sequence[Comparison], *, more_is_better: bool) -> str:
    """Return the file. Each comparison has one peer; rows keep the order of the table."""
    edges = steps_around(min(1, *map(_low, rows)), max(1, *map(_high, rows)))
    per_power = (_RIGHT - _LEFT) / (log10(edges[-1]) - log10(edges[0]))

    def place(ratio: float) -> float:
        return _LEFT + (log10(max(ratio, edges[0])) - log10(edges[0])) * per_power

    lines = [wrapped(each.label, _LEFT - MARGIN - 20, _SIZE) for each in rows]
    bottom = _HEAD + sum(len(each) * _LINE + _GAP for each in lines)
    height = bottom + 24 + FOOT_HEIGHT
    drawn = [
        label(frame.title, MARGIN, 34, size=18, bold=True),
        element("circle", cx=MARGIN + 6, cy=57, r=5, class_="ours"),
        label("Headrace ahead", MARGIN + 18, 62),
        element("circle", cx=MARGIN + 146, cy=57, r=4.5, class_="hollow"),
        label("Headrace behind", MARGIN + 158, 62),
        label("┊ bar", MARGIN + 286, 62),
        label("├─┤ spread of our rounds", WIDTH - MARGIN, 62, kind="quiet", anchor="end"),
    ]
    left, right = ("behind", "ahead") if more_is_better else ("ahead", "behind")
    drawn += [
        label(f"← {left}", place(1) - 8, _HEAD - 26, kind="quiet", size=_SIZE, anchor="end"),
        label(f"{right} →", place(1) + 8, _HEAD - 26, kind="quiet", size=_SIZE),
    ]
    for edge in edges:
        x = place(edge)
        kind = "axis" if isclose(edge, 1) else "grid"
        drawn.append(element("line", x1=x, x2=x, y1=_HEAD - 8, y2=bottom, class_=kind))
        drawn += [
            label(_tick(edge), x, y, kind="quiet", size=_SIZE, anchor="middle")
            for y in (_HEAD - 12, bottom + 16)
        ]
    top: float = _HEAD
    for each, words in zip(rows, lines, strict=True):
        tall = len(words) * _LINE
        drawn += _words(each, words, top)
        drawn += _marks(each, top, tall, place)
        top += tall + _GAP
    drawn.append(frame.foot(height, (each.measured for each in rows)))
    return document(frame.title, " ".join(each.sentence for each in rows), height, drawn)


def _words(each: Comparison, words: list[str], top: float) -> list[str]:
    """What was measured on the left, what came of it on the right."""
    peer = each.peers[0]
    said = exact_ratio(each.ours, peer)
    if peer.reached is not None:
        at = bar_ratio(peer.bar)
        said += "  bar" if at is None else f"  bar {at:g}×"
        said += " reached ✓" if peer.reached else " missed ✗"
    elif peer.standing == BEHIND:
        said += "  behind, no bar"
    middle = top + len(words) * _LINE / 2 + 4
    return [
        label(said, _WORDS, middle, kind=verdict_kind(peer), size=_SIZE),
        *(
            label(line, MARGIN, top + 11 + number * _LINE, size=_SIZE)
            for number, line in enumerate(words)
        ),
    ]


def _marks(each: Comparison, top: float, tall: float, place: Callable[[float], float]) -> list[str]:
    """The point with its whisker, and the bar."""
    peer, middle = each.peers[0], top + tall / 2
    drawn = []
    if each.spread:
        drawn.append(whisker(place(_low(each)), place(_high(each)), middle, upright=False))
    at = bar_ratio(peer.bar)
    if at is not None:
        x = place(at)
        drawn.append(element("line", x1=x, x2=x, y1=top - 2, y2=top + tall + 2, class_="bar-mark"))
    x = place(peer.ratio)
    hollow = peer.standing == BEHIND
    drawn.append(
        element(
            "circle", cx=x, cy=middle, r=4.5 if hollow else 5, class_="hollow" if hollow else "ours"
        )
    )
    return drawn


def _tick(edge: float) -> str:
    """Return the step; only powers of ten have room for their sign."""
    return f"{edge:g}×" if isclose(log10(edge) % 1, 0) else f"{edge:g}"


def _low(each: Comparison) -> float:
    ratio = each.peers[0].ratio
    return max(ratio * (1 - (each.spread or 0) / 2), ratio / 10)


def _high(each: Comparison) -> float:
    return each.peers[0].ratio * (1 + (each.spread or 0) / 2)
