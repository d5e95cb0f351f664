"""Rows that are read from columns, up to limits of count and bytes."""

import pyarrow as pa
import pytest

from headrace.gateway.kinesis.record.row import StoredRow
from headrace.gateway.kinesis.record.shard_reader import _rows

KEYS = [b"a", None, b"", b"dd"]
VALUES = [b"1" * 10, b"", None, b"4" * 10]


def columns(keys: list[bytes | None], values: list[bytes | None]) -> pa.RecordBatch:
    count = len(keys)
    return pa.record_batch(
        {
            "offset": pa.array(range(7, 7 + count), pa.int64()),
            "timestamp": pa.array([1000] * count, pa.timestamp("ms", "UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("with_nulls", [True, False])
def test_all_rows_are_read(start: int, with_nulls: bool) -> None:
    keys = KEYS if with_nulls else [each or b"" for each in KEYS]
    values = VALUES if with_nulls else [each or b"" for each in VALUES]

    found = _rows(columns(keys, values).slice(start), 100, 1000)

    expected = [
        StoredRow(7 + at, 1000, keys[at], values[at] or b"") for at in range(start, len(keys))
    ]
    assert found == (expected, True)


@pytest.mark.parametrize(("most_rows", "most_bytes", "count"), [(2, 99, 2), (9, 12, 3), (9, 1, 1)])
def test_a_limit_ends_what_is_read(most_rows: int, most_bytes: int, count: int) -> None:
    rows, is_all = _rows(columns(KEYS, VALUES), most_rows, most_bytes)

    assert (len(rows), is_all) == (count, False)


def test_no_rows_are_all_rows() -> None:
    assert _rows(columns([], []), 9, 9) == ([], True)
