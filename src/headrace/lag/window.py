"""The last ten commits of one partition of one group."""

from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.lag.status import WINDOW, Commit, LagStatus, partition_status

# A consumer that commits after every record would fill the window in a moment, and ten commits of
# one moment show no direction.
MIN_DISTANCE_MS: Final = 1_000


class CommitWindow:
    """Commits in the order of their times.

    One that comes too soon after the last is dropped, unless its offset goes back: a rewind must
    show.
    """

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque(maxlen=WINDOW)

    @property
    def commits(self) -> list[Commit]:
        return list(self._commits)

    def add(self, commit: Commit) -> None:
        """Add a commit, unless it is older than the newest one known."""
        last = self._commits[-1] if self._commits else None
        if last is not None and commit.at_ms < last.at_ms:
            return
        if (
            last is None
            or commit.at_ms - last.at_ms >= MIN_DISTANCE_MS
            or commit.offset < last.offset
        ):
            self._commits.append(commit)

    def correct_lags(self, end_at: Callable[[int], int]) -> None:
        """Compute the lag of each commit again, from where the log ended at its time."""
        self._commits = deque(
            (
                Commit(each.offset, each.at_ms, max(end_at(each.at_ms) - each.offset, 0))
                for each in self._commits
            ),
            maxlen=WINDOW,
        )

    def status(self, *, lag_now: int, now_ms: int, behind_since_ms: int = 0) -> LagStatus:
        return partition_status(
            self._commits, lag_now=lag_now, now_ms=now_ms, behind_since_ms=behind_since_ms
        )
