"""Rows are split by the hour or day of their times."""

from datetime import UTC, datetime

import pyarrow as pa

from headrace.landing.row.decoded import TIME
from headrace.landing.time_partition import TimePartition

HOUR = TimePartition.parse("hour(at)")


def rows(*times: datetime | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"at": pa.array(times, TIME), "n": pa.array(range(len(times)), pa.int64())}
    )


def split(*times: datetime | None) -> dict[str | None, list[int]]:
    return {
        HOUR.text(number): part.column("n").to_pylist() for number, part in HOUR.split(rows(*times))
    }


def test_rows_keep_their_order_in_each_partition() -> None:
    first, second = (datetime(2026, 11, 17, hour, 5, tzinfo=UTC) for hour in (1, 2))
    before = datetime(1969, 12, 31, 23, 59, tzinfo=UTC)

    assert split(second, first, None, second, before, first) == {
        "2026-11-17-01": [1, 5],
        "2026-11-17-02": [0, 3],
        "1969-12-31-23": [4],
        None: [2],
    }


def test_the_last_microsecond_of_an_hour_is_in_it_at_any_time() -> None:
    last = datetime(9999, 12, 31, 22, 59, 59, 999_999, tzinfo=UTC)

    assert split(last, datetime(2026, 1, 1, tzinfo=UTC)) == {
        "9999-12-31-22": [0],
        "2026-01-01-00": [1],
    }


def test_a_partition_per_row_is_split_in_one_pass() -> None:
    many = 30_000
    hours = pa.array([each * 3_600_000_000 for each in range(many)], pa.int64()).cast(TIME)
    batch = pa.RecordBatch.from_arrays([hours], ["at"])

    assert [number for number, part in HOUR.split(batch) if part.num_rows == 1] == [*range(many)]
