"""What the site knows to be true, to hold the streams' answers against."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.demo.page_view import PageView
from headrace.demo.profile import country_of
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS, MINUTES

Key = tuple[str | int, ...]
"""What an answer is about: a page and where a window begins, or a country."""

LANDED = "Parquet"
_ROWS: Key = ("rows",)
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Check:
    """How one flow's answers compare with the truth."""

    answers: int
    wrong: Mapping[Key, tuple[int, int]]
    """What was found and what would be right, where they differ."""

    @classmethod
    def of(cls, right: Mapping[Key, int], found: Mapping[Key, int]) -> "Check":
        wrong = {
            key: (found.get(key, 0), right.get(key, 0))
            for key in right.keys() | found.keys()
            if found.get(key, 0) != right.get(key, 0)
        }
        return cls(len(right), wrong)


@dataclass(frozen=True, slots=True)
class Verdict:
    views: int
    checks: Mapping[str, Check]

    @property
    def right(self) -> bool:
        """Whether everything is, and there was something to be right about."""
        return self.views > 0 and not any(check.wrong for check in self.checks.values())


class Ledger:
    """The truth about every flow, computed from the views as they were written.

    It is computed in another way than the flows do it, on purpose.

    Thread rule: one thread adds; `verdict` when it has stopped.

    Args:
        alert_ms, alert_failures: a page that fails so often in a stretch so long is told of once.
    """

    def __init__(self, window: RollingWindow, *, alert_ms: int, alert_failures: int) -> None:
        self.window = window
        self.views = 0
        self._alert_ms = alert_ms
        self._alert_failures = alert_failures
        self._counts: Counter[Key] = Counter()
        self._minutes: Counter[Key] = Counter()
        self._failures: Counter[Key] = Counter()
        self._countries: Counter[Key] = Counter()

    def add(self, views: Iterable[PageView]) -> None:
        for view in views:
            self.views += 1
            for start in self.window.starts(view.at_ms):
                self._counts[view.page, start] += 1
            self._minutes[view.page, view.at_ms // _MINUTE_MS * _MINUTE_MS] += 1
            self._countries[country_of(view.user),] += 1
            if view.status >= 500:
                stretch = view.at_ms // self._alert_ms * self._alert_ms
                self._failures[view.page, stretch] += 1

    def verdict(self, found: Mapping[str, Mapping[Key, int]]) -> Verdict:
        """Hold the newest answers of every flow against the truth."""
        alerts = {key: 1 for key, n in self._failures.items() if n >= self._alert_failures}
        truth: dict[str, Mapping[Key, int]] = {
            COUNTS: self._counts,
            MINUTES: self._minutes,
            ALERTS: alerts,
            COUNTRIES: self._countries,
            LANDED: {_ROWS: self.views},
        }
        checks = {name: Check.of(right, found.get(name, {})) for name, right in truth.items()}
        return Verdict(self.views, checks)


def landed(rows: int) -> dict[Key, int]:
    """The answer of the flow that lands views in files."""
    return {_ROWS: rows}
