"""Windows over a stream: the last so many tuples, or the tuples of a stretch of time."""

from dataclasses import dataclass

import pyarrow as pa

from headrace.flow.error import FlowError


@dataclass(frozen=True, slots=True)
class Window:
    """The tuples that a windowed bolt is called with.

    Attributes:
        tuples: all of them, in the order of arrival or, with event time, of their timestamps.
        new: those that no earlier window had.
        start_ms, end_ms: the bounds of a window of time; the end is not part of it.
    """

    tuples: pa.RecordBatch
    new: pa.RecordBatch
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CountWindow:
    """The last `length` tuples, every `slide` tuples; tumbling without `slide`.

    The first windows of a sliding one are shorter, as in Storm.
    """

    length: int
    slide: int | None = None

    def __post_init__(self) -> None:
        if self.length < 1 or self.step < 1:
            raise FlowError(f"{self} cannot be: both numbers are 1 or more")

    @property
    def step(self) -> int:
        return self.length if self.slide is None else self.slide


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The tuples of `length_seconds`, every `slide_seconds`; tumbling without the latter.

    Args:
        timestamp: the field with a tuple's time, a TIMESTAMP or a BIGINT of milliseconds. Without
            it a tuple's time is that of its batch.
        lag_seconds: how long a window waits for tuples that come out of order: it closes when on
            every input a tuple has come that is so much later than its end.
        late: the stream for tuples that come after that; it has the fields of the input. Without
            it late tuples are dropped.

    Example:
        TimeWindow(60, slide_seconds=10, timestamp="at", lag_seconds=5, late="late")
    """

    length_seconds: float
    slide_seconds: float | None = None
    timestamp: str | None = None
    lag_seconds: float = 0.0
    late: str | None = None

    def __post_init__(self) -> None:
        if self.length_ms < 1 or self.step_ms < 1 or self.lag_seconds < 0:
            raise FlowError(f"{self} cannot be: windows last a millisecond or longer")
        if self.timestamp is None and (self.lag_seconds or self.late):
            raise FlowError(f"{self} cannot be: lag and late tuples need a timestamp field")

    @property
    def length_ms(self) -> int:
        return round(self.length_seconds * 1_000)

    @property
    def step_ms(self) -> int:
        return self.length_ms if self.slide_seconds is None else round(self.slide_seconds * 1_000)

    @property
    def lag_ms(self) -> int:
        return round(self.lag_seconds * 1_000)
