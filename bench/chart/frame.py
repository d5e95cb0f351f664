"""What all charts share: the title, the legend, and the line that says where and when."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.chart.svg import WIDTH, element, label, text_width

SERIES = ("ours", "peer", "second")
MARGIN = 24
HEAD_HEIGHT = 82
FOOT_HEIGHT = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The words around a chart.

    Attributes:
        series: the names in the legend, ours first.
        machine: where it was measured.
    """

    title: str
    series: Sequence[str]
    machine: str

    def head(self) -> list[str]:
        """Return title and legend, in `HEAD_HEIGHT`."""
        drawn = [label(self.title, MARGIN, 34, size=18, bold=True)]
        x = float(MARGIN)
        for kind, name in zip(SERIES, self.series, strict=False):
            drawn += [
                element("rect", x=x, y=51, width=12, height=12, rx=2, class_=kind),
                label(name, x + 18, 62),
            ]
            x += 18 + text_width(name) + 22
        drawn.append(
            label("├─┤ spread of our rounds", WIDTH - MARGIN, 62, kind="quiet", anchor="end")
        )
        return drawn

    def foot(self, height: float, days: Iterable[str]) -> str:
        """Return the last line of a chart of this height."""
        words = f"{self.machine} · measured {days_text(days)} · medians"
        return label(words, MARGIN, height - 14, kind="quiet", size=11)


def days_text(days: Iterable[str]) -> str:
    """Return a day, or the first and the last of several."""
    found = sorted(set(days))
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"
