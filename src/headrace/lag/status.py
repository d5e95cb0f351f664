"""Whether a consumer keeps up, judged by its last commits alone: no thresholds on lag.

A lag of a million is fine while it shrinks, and a lag of ten is not when no consumer reads. So each
partition of a group keeps its last ten commits, each with the lag it left, and is judged by the
first rule that applies (they are Burrow's):

1. There is no lag now: OK.
2. There has been something to read, and nothing was committed, for longer than these commits took
   together: STOP.
3. A commit left no lag: OK. A consumer that reached the end is not behind.
4. A committed offset went back: REWIND. It was reset, or a consumer lost its position.
5. Commits come, and the offset does not move: STALL. The consumer runs without progress.
6. Every commit left at least the lag of the one before it: WARN. It reads, and falls behind.
7. Otherwise: OK.

Rules 5 and 6 need all ten commits: two or three say nothing about a direction. Rule 2 stretches a
short window to ten commits at the pace of those that are there; a lone commit is given
`LONE_COMMIT_MS`.

A group is ERR when one of its partitions is REWIND, STOP or STALL, WARN when one is WARN.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

WINDOW: Final = 10
LONE_COMMIT_MS: Final = 60_000
# A burst of commits must not make half a second of silence look like the end.
SHORTEST_SILENCE_MS: Final = 10_000


class LagStatus(StrEnum):
    """From best to worst."""

    OK = "OK"
    WARN = "WARN"
    REWIND = "REWIND"
    STALL = "STALL"
    STOP = "STOP"
    ERR = "ERR"

    @property
    def severity(self) -> int:
        """0 for OK, 1 for WARN, 2 for the rest."""
        return 0 if self is LagStatus.OK else 1 if self is LagStatus.WARN else 2


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, when it was made, and how much was left to read then."""

    offset: int
    at_ms: int
    lag: int


def partition_status(
    commits: Sequence[Commit], *, lag_now: int, now_ms: int, behind_since_ms: int = 0
) -> LagStatus:
    """Judge one partition of one group.

    Args:
        commits: the last ones, oldest first, at most `WINDOW`.
        lag_now: what is left to read at this moment.
        behind_since_ms: when the first of it came. A consumer that was at the end then is silent
            only since.

    >>> falling = [Commit(offset=n, at_ms=n * 1000, lag=50 + n) for n in range(10)]
    >>> partition_status(falling, lag_now=60, now_ms=9_500)
    <LagStatus.WARN: 'WARN'>
    """
    if not commits or lag_now <= 0:
        return LagStatus.OK
    if now_ms - max(commits[-1].at_ms, behind_since_ms) > _allowed_silence_ms(commits):
        return LagStatus.STOP
    if any(each.lag <= 0 for each in commits):
        return LagStatus.OK
    if any(after.offset < before.offset for before, after in pairwise(commits)):
        return LagStatus.REWIND
    if len(commits) < WINDOW:
        return LagStatus.OK
    if commits[0].offset == commits[-1].offset:
        return LagStatus.STALL
    if all(after.lag >= before.lag for before, after in pairwise(commits)):
        return LagStatus.WARN
    return LagStatus.OK


def group_status(partitions: Iterable[LagStatus]) -> LagStatus:
    """Return the status of a group: that of its worst partition."""
    worst = max((each.severity for each in partitions), default=0)
    return (LagStatus.OK, LagStatus.WARN, LagStatus.ERR)[worst]


def _allowed_silence_ms(commits: Sequence[Commit]) -> int:
    """Return how long a consumer may be silent at its pace."""
    if len(commits) == 1:
        return LONE_COMMIT_MS
    span = commits[-1].at_ms - commits[0].at_ms
    return max(span * (WINDOW - 1) // (len(commits) - 1), SHORTEST_SILENCE_MS)
