"""Which pages rise: their views in the newest complete window, and one window earlier."""

from collections import Counter
from dataclasses import dataclass, field

from headrace.demo.answer_reader import AnswerReader
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.topic import COUNTS
from headrace.flow.monitoring.shown_table import ShownTable

_SHOWN = 10
_COLUMNS = ("page", "views", "before", "change")


@dataclass(frozen=True, slots=True)
class Trend:
    """Views per page. `before` is empty while there is no whole window to compare with."""

    pages: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, reader: AnswerReader, window: RollingWindow, now_ms: int) -> "Trend":
        newest = window.newest_full(now_ms)
        starts = reader.starts(COUNTS)
        shown = max((start for start in starts if start <= newest), default=0)
        before = shown - window.length_ms
        # A window that started before the site opened has fewer views: every page would rise.
        whole = min(starts, default=0) + window.length_ms
        return cls(
            reader.totals(COUNTS, shown),
            reader.totals(COUNTS, before) if before >= whole else Counter(),
        )

    def table(self, seconds: int) -> ShownTable:
        """Return the pages that rise most, as a table for the console."""
        compared = [(page, views) for page, views in self.pages.items() if self.before[page]]
        compared.sort(key=lambda each: (-each[1] / self.before[each[0]], -each[1]))
        rows = tuple(
            (page, views, self.before[page], f"{views / self.before[page] - 1:+.0%}")
            for page, views in compared[:_SHOWN]
        )
        return ShownTable(
            f"Rising pages: {seconds} s beside the {seconds} s before", _COLUMNS, rows
        )
