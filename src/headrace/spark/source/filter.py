"""Filters of a query that a batch read applies itself, so that it fetches and passes on less.

Rule 1: filters on topic, partition and offset choose the ranges to read. They are exact.
Rule 2: filters on timestamp are applied to whole columns, before rows are passed to Spark. A lower
bound also moves the start of each range, because no record before the offset that the broker finds
for a time is as young. An upper bound moves nothing: producers' clocks may run backwards.
Rule 3: all other filters are returned to Spark, unchanged.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from headrace.spark.source.offset_range import OffsetRange

_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
_COMPARE: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
_COMPARE_COLUMN: Final = {
    EqualTo: "equal",
    EqualNullSafe: "equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
    LessThan: "less",
    LessThanOrEqual: "less_equal",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TimeTest:
    """One comparison of the timestamp with a time in microseconds."""

    function: str
    time_us: int

    def keep(self, times: pa.Array) -> pa.Array:
        """Return which times pass the test."""
        bound = pa.scalar(self.time_us, pa.timestamp("us", tz="UTC"))
        # Imported here: the processes in which Spark plans load this file too.
        from pyarrow import compute as pc

        return pc.call_function(self.function, [times, bound])


@dataclass
class SourceFilter:
    """The filters that the source applies. They pickle: tasks get those on times."""

    _topic: list[Filter] = field(default_factory=list)
    _partition: list[Filter] = field(default_factory=list)
    _first_offset: int = 0
    _past_offset: int | None = None
    _times: list[TimeTest] = field(default_factory=list)

    def accept(self, each: Filter) -> bool:
        """Add a filter if the source can apply it; return whether it can."""
        if isinstance(each, IsNotNull):
            return _column(each) in _NEVER_NULL
        if type(each) not in (*_COMPARE, In):
            return False
        match _column(each), _value(each):
            case ("topic", value) if _are(value, str):
                self._topic.append(each)
            case ("partition", value) if _are(value, int):
                self._partition.append(each)
            case ("offset", int(value)):
                self._narrow(each, value)
            case ("timestamp", datetime() as value) if value.tzinfo is not None:
                self._times.append(TimeTest(_COMPARE_COLUMN[type(each)], _microseconds(value)))
            case _:
                return False
        return True

    def keeps(self, topic: str, partition: int) -> bool:
        """Return whether a partition passes all filters on topic and partition."""
        return _all_hold(self._topic, topic) and _all_hold(self._partition, partition)

    def narrow(self, whole: OffsetRange) -> OffsetRange:
        """Return the part of a range that passes all filters on offset."""
        end = whole.end if self._past_offset is None else min(whole.end, self._past_offset)
        return OffsetRange(whole.partition, max(whole.start, self._first_offset), end)

    @property
    def not_before_ms(self) -> int | None:
        """The time before which no record passes, or None."""
        lower = ("equal", "greater", "greater_equal")
        found = [each.time_us // 1000 for each in self._times if each.function in lower]
        return max(found, default=None)

    @property
    def times(self) -> tuple[TimeTest, ...]:
        """The tests on timestamps, for tasks."""
        return tuple(self._times)

    def _narrow(self, each: Filter, value: int) -> None:
        if isinstance(each, EqualTo | EqualNullSafe | GreaterThanOrEqual):
            self._first_offset = max(self._first_offset, value)
        elif isinstance(each, GreaterThan):
            self._first_offset = max(self._first_offset, value + 1)
        if isinstance(each, EqualTo | EqualNullSafe | LessThanOrEqual):
            self._end_before(value + 1)
        elif isinstance(each, LessThan):
            self._end_before(value)

    def _end_before(self, offset: int) -> None:
        current = self._past_offset
        self._past_offset = offset if current is None else min(current, offset)


def keep_rows(columns: pa.RecordBatch, tests: Iterable[TimeTest], name: str) -> pa.RecordBatch:
    """Return the rows whose column `name` passes every test."""
    for test in tests:
        columns = columns.filter(test.keep(columns.column(name)))
    return columns


def _column(each: Filter) -> str | None:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else None


def _value(each: Filter) -> Any:
    return getattr(each, "value", None)


def _are(value: Any, kind: type) -> bool:
    values = value if isinstance(value, tuple | list) else (value,)
    return all(type(each) is kind for each in values)


def _all_hold(filters: Iterable[Filter], value: Any) -> bool:
    return all(
        value in _value(each) if isinstance(each, In) else _COMPARE[type(each)](value, _value(each))
        for each in filters
    )


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
