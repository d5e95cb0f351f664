"""Growing pauses between retries."""

FIRST_SECONDS = 0.05
LONGEST_SECONDS = 5.0


class Backoff:
    """Returns pauses that double, up to five seconds (Flume's maxBackoffSleep).

    >>> backoff = Backoff()
    >>> [backoff.next_seconds() for _ in range(3)]
    [0.05, 0.1, 0.2]
    """

    def __init__(
        self, first_seconds: float = FIRST_SECONDS, longest_seconds: float = LONGEST_SECONDS
    ) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._next = first_seconds

    def next_seconds(self) -> float:
        pause, self._next = self._next, min(self._next * 2, self._longest)
        return pause

    def reset(self) -> None:
        self._next = self._first
