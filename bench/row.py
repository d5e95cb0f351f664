"""One line of the results table, and the way every ratio here is measured."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement.

    Attributes:
        ours, theirs: medians in `unit`; `theirs` is None when there is nothing to hold it against.
        spread: (largest - smallest) / median of our rounds: how noisy the machine was.
        bar: the floor (or, for a time or a size, the ceiling) we hold ourselves to, as text.
        reached: whether the bar was reached; None when the row is only for information.
    """

    name: str
    ours: float
    unit: str
    theirs: float | None = None
    spread: float | None = None
    bar: str = ""
    reached: bool | None = None

    @property
    def ratio(self) -> float | None:
        return None if not self.theirs else self.ours / self.theirs


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def alternate(
    ours: Callable[[], float], theirs: Callable[[], float], rounds: int = 5
) -> tuple[list[float], list[float]]:
    """Measure both sides in turn, so that a slow minute of the machine hits both alike."""
    our_rounds, their_rounds = [], []
    for _ in range(rounds):
        our_rounds.append(ours())
        their_rounds.append(theirs())
    return our_rounds, their_rounds


def median(rounds: list[float]) -> float:
    return statistics.median(rounds)


def spread(rounds: list[float]) -> float:
    return (max(rounds) - min(rounds)) / statistics.median(rounds)
