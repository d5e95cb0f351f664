"""The correct answers of the flows, computed by the site itself, and the comparison with them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.demo.page_view import PageView
from headrace.demo.profile import country_of
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS, MINUTES

Key = tuple[str | int, ...]
"""What an answer is about: a page and the start of a window, or a country."""

LANDED = "Parquet"
_ROWS: Key = ("rows",)
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """How the answers of one flow compare with the expected ones.

    Attributes:
        answers: how many were expected.
        wrong: the actual and the expected answer, where they differ.
    """

    answers: int
    wrong: Mapping[Key, tuple[int, int]]

    @classmethod
    def of(cls, expected: Mapping[Key, int], actual: Mapping[Key, int]) -> "AnswerCheck":
        wrong = {
            key: (actual.get(key, 0), expected.get(key, 0))
            for key in expected.keys() | actual.keys()
            if actual.get(key, 0) != expected.get(key, 0)
        }
        return cls(len(expected), wrong)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The outcome of a bounded run: the views that were written, and a check per flow."""

    views: int
    checks: Mapping[str, AnswerCheck]

    @property
    def right(self) -> bool:
        """Whether every answer is right, and there was at least one view."""
        return self.views > 0 and not any(check.wrong for check in self.checks.values())


class ExpectedAnswers:
    """Computes the answers of every flow from the views as they were written.

    It computes them in another way than the flows do, on purpose.

    Threads: one thread calls `add`; `compare` may be called once that thread has stopped.

    Args:
        alert_ms, alert_failures: a page that fails so often in an interval of this length gets one
            alert.
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
                interval = view.at_ms // self._alert_ms * self._alert_ms
                self._failures[view.page, interval] += 1

    def compare(self, actual: Mapping[str, Mapping[Key, int]]) -> DemoResult:
        """Compare the newest answers of every flow with the expected ones."""
        alerts = {key: 1 for key, n in self._failures.items() if n >= self._alert_failures}
        expected: dict[str, Mapping[Key, int]] = {
            COUNTS: self._counts,
            MINUTES: self._minutes,
            ALERTS: alerts,
            COUNTRIES: self._countries,
            LANDED: {_ROWS: self.views},
        }
        checks = {
            name: AnswerCheck.of(answers, actual.get(name, {}))
            for name, answers in expected.items()
        }
        return DemoResult(self.views, checks)


def landed_answer(rows: int) -> dict[Key, int]:
    """Return the answer of the flow that writes views to files."""
    return {_ROWS: rows}
