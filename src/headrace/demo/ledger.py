"""What the site knows to be true, to hold the stream's answers against."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.demo.page_view import PageView
from headrace.demo.rolling_window import RollingWindow

PageWindow = tuple[str, int]
"""A page, and where a window begins, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the stream's counts compare with the truth."""

    views: int
    windows: int
    wrong: dict[PageWindow, tuple[int, int]]
    """What was counted and what would be right, where they differ."""

    @property
    def right(self) -> bool:
        return not self.wrong and self.windows > 0


class Ledger:
    """Views per page and window, as they were written.

    Thread rule: one thread adds; `verdict` when it has stopped.
    """

    def __init__(self, window: RollingWindow) -> None:
        self.window = window
        self.views = 0
        self._counts: Counter[PageWindow] = Counter()

    def add(self, views: Iterable[PageView]) -> None:
        for view in views:
            self.views += 1
            for start in self.window.starts(view.at_ms):
                self._counts[view.page, start] += 1

    def verdict(self, counted: Mapping[PageWindow, int]) -> Verdict:
        """Hold the newest count of every page and window against the truth."""
        wrong = {
            where: (counted.get(where, 0), self._counts.get(where, 0))
            for where in self._counts.keys() | counted.keys()
            if counted.get(where, 0) != self._counts.get(where, 0)
        }
        return Verdict(self.views, len(self._counts), wrong)
