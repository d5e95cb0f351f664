"""Which records of a partition to read: from one bound to another."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TypeAlias

from headrace.model.error import InvalidArgument


class LogEdge(Enum):
    """An edge of the log at the moment the reader is opened.

    `LATEST` is the end that a reader may see: the high watermark, or with read_committed the offset
    at which the oldest open transaction begins.
    """

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Moment:
    """A time in milliseconds since 1970, UTC, for callers without a `datetime`."""

    ms: int


Bound: TypeAlias = int | LogEdge | Moment | datetime
"""An offset, an edge of the log, or a time: the first record that is not older than it."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The records from `start` up to, and without, `end`. Small and picklable.

    A time means the first offset whose record is not older than it. Where no record is as young, it
    means the end of the log.

    Attributes:
        end: None means the end of the log when the reader is opened, or, with follow=True, no end.
            The reader waits for an offset that the log has not reached yet.

    >>> ReadRange(100, 200)
    ReadRange(start=100, end=200)
    >>> ReadRange(datetime(2026, 11, 15, tzinfo=UTC), LogEdge.LATEST).start
    datetime.datetime(2026, 11, 15, 0, 0, tzinfo=datetime.timezone.utc)
    """

    start: Bound = LogEdge.EARLIEST
    end: Bound | None = None

    def __post_init__(self) -> None:
        for bound in (self.start, self.end):
            if isinstance(bound, datetime) and bound.tzinfo is None:
                raise InvalidArgument(
                    f"the time {bound} has no time zone: write it as datetime(..., tzinfo=UTC)"
                )
            if isinstance(bound, bool) or not isinstance(
                bound, int | LogEdge | Moment | datetime | None
            ):
                raise InvalidArgument(
                    f"{bound!r} is no bound of a range: give an offset, LogEdge.EARLIEST, "
                    "LogEdge.LATEST, a datetime or Moment(ms)"
                )
            if isinstance(bound, int) and bound < 0:
                raise InvalidArgument(
                    f"{bound} is no offset: write LogEdge.EARLIEST or LogEdge.LATEST for the edges"
                )
        if isinstance(self.start, int) and isinstance(self.end, int) and self.end < self.start:
            raise InvalidArgument(
                f"a range cannot end at {self.end}, before its start {self.start}"
            )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(moment: Moment | datetime) -> int:
    """Return milliseconds since 1970, rounded up so that no record is older than the moment.

    >>> milliseconds(datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC))
    1001
    """
    if isinstance(moment, Moment):
        return moment.ms
    passed = moment - _EPOCH
    microseconds = (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    return -(-microseconds // 1000)
