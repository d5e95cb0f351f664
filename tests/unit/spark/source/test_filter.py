"""Filters that a batch read applies itself."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from headrace.model.ids import TopicPartition
from headrace.spark.source.filter import SourceFilter, keep_rows
from headrace.spark.source.offset_range import OffsetRange

WHOLE = OffsetRange(TopicPartition("clicks", 0), 0, 100)


def taken(*filters: Filter) -> SourceFilter:
    found = SourceFilter()
    assert all(found.accept(each) for each in filters)
    return found


def narrowed(*filters: Filter) -> tuple[int, int]:
    found = taken(*filters).narrow(WHOLE)
    return found.start, found.end


def test_partitions_and_topics_are_chosen() -> None:
    chosen = taken(In(("partition",), (1, 2)), EqualTo(("topic",), "clicks"))

    assert chosen.keeps("clicks", 1)
    assert not chosen.keeps("clicks", 0)
    assert not chosen.keeps("views", 1)


def test_partitions_are_compared() -> None:
    chosen = taken(GreaterThan(("partition",), 1), LessThanOrEqual(("partition",), 3))

    assert [each for each in range(6) if chosen.keeps("clicks", each)] == [2, 3]


def test_offsets_narrow_the_range() -> None:
    assert narrowed(GreaterThan(("offset",), 9), LessThan(("offset",), 20)) == (10, 20)
    assert narrowed(GreaterThanOrEqual(("offset",), 9), LessThanOrEqual(("offset",), 20)) == (9, 21)
    assert narrowed(EqualTo(("offset",), 7)) == (7, 8)
    assert narrowed(GreaterThan(("offset",), -5), LessThan(("offset",), 500)) == (0, 100)


def test_contradictions_leave_nothing() -> None:
    found = taken(EqualTo(("offset",), 7), EqualTo(("offset",), 8)).narrow(WHOLE)

    assert found.size <= 0


def test_times_are_compared_exactly_whatever_their_unit() -> None:
    moment = datetime(2026, 11, 15, tzinfo=UTC)
    ms = int(moment.timestamp() * 1000)
    batch = pa.record_batch(
        {"timestamp": pa.array([ms - 1, ms, ms + 1], pa.timestamp("ms", "UTC"))}
    )

    def kept(*filters: Filter) -> list[int]:
        found = keep_rows(batch, taken(*filters).times, "timestamp")
        return [each - ms for each in found["timestamp"].cast(pa.int64()).to_pylist()]

    assert kept(GreaterThan(("timestamp",), moment)) == [1]
    assert kept(GreaterThanOrEqual(("timestamp",), moment)) == [0, 1]
    assert kept(LessThan(("timestamp",), moment)) == [-1]
    assert kept(EqualTo(("timestamp",), moment)) == [0]
    assert kept(GreaterThan(("timestamp",), moment.replace(microsecond=500))) == [1]


def test_only_a_lower_bound_moves_the_start() -> None:
    moment = datetime(1970, 1, 1, 0, 0, 5, 999, tzinfo=UTC)

    assert taken(GreaterThan(("timestamp",), moment)).not_before_ms == 5_000
    assert taken(LessThan(("timestamp",), moment)).not_before_ms is None


def test_columns_that_are_never_null_need_no_test() -> None:
    assert taken(IsNotNull(("offset",)), IsNotNull(("timestamp",))).narrow(WHOLE) == WHOLE


@pytest.mark.parametrize(
    "left",
    [
        IsNotNull(("value",)),
        IsNull(("key",)),
        EqualTo(("value",), b"x"),
        Not(EqualTo(("partition",), 1)),
        In(("offset",), (1, 2)),
        StringContains(("topic",), "c"),
        EqualTo(("timestamp",), datetime(2026, 1, 1)),
        EqualTo(("value", "partition"), 1),
        EqualTo(("partition",), 1.5),
        EqualTo(("partition",), None),
    ],
)
def test_everything_else_is_left_to_spark(left: Filter) -> None:
    found = SourceFilter()

    assert not found.accept(left)
    assert found == SourceFilter()
