"""Windows of one length that start every few seconds, so that each view counts in several."""

from dataclasses import dataclass

from headrace.model.error import InvalidArgument


@dataclass(frozen=True, slots=True)
class RollingWindow:
    """Windows start at the multiples of `slide_ms` since 1970, as those of Spark's `window` do.

    >>> RollingWindow(length_ms=30_000, slide_ms=10_000).starts(25_000)
    [20000, 10000, 0]
    """

    length_ms: int
    slide_ms: int

    def __post_init__(self) -> None:
        if not 0 < self.slide_ms <= self.length_ms or self.length_ms % self.slide_ms:
            raise InvalidArgument(
                f"a window of {self.length_ms} ms cannot roll by {self.slide_ms} ms: the step must"
                " divide the length"
            )

    def starts(self, at_ms: int) -> list[int]:
        """Return the starts of the windows that contain this moment, newest first."""
        newest = at_ms - at_ms % self.slide_ms
        return list(range(newest, newest - self.length_ms, -self.slide_ms))

    def newest_full(self, at_ms: int) -> int:
        """Return the start of the newest window that has ended at this moment."""
        return at_ms - at_ms % self.slide_ms - self.length_ms
