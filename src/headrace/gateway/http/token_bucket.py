"""A token bucket, pure: the caller brings the time."""


class TokenBucket:
    """Allows `rate` tokens per second, and a burst of one second's worth.

    A request larger than the burst passes when the bucket is full, and the debt is paid off after
    it: a large request must pass somehow, also at a low rate.
    """

    __slots__ = ("_at", "_left", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._left = rate
        self._at = now

    def allows(self, tokens: float, now: float) -> bool:
        """Return whether so many tokens are there. Takes none."""
        elapsed = max(0.0, now - self._at)
        self._left = min(self._rate, self._left + elapsed * self._rate)
        self._at = max(self._at, now)
        return self._left >= min(tokens, self._rate)

    def take(self, tokens: float) -> None:
        """Take tokens that `allows` has just allowed."""
        self._left -= tokens
