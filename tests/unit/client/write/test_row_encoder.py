"""Rows that may go anywhere fill whole batches, evenly."""

import pyarrow as pa
import pytest

from headrace.client.write.row_encoder import RowEncoder
from headrace.client.write.row_partitioner import RowPartitioner
from headrace.records.compression import Codec

BATCH_BYTES = 100_000


@pytest.mark.parametrize("rows", [900, 1_000, 1_500, 3_100])
def test_rows_just_too_many_for_a_batch_leave_no_small_one_behind(rows: int) -> None:
    encoder = RowEncoder(Codec.NONE, None, BATCH_BYTES, 16 * BATCH_BYTES)
    table = pa.table({"value": pa.array([b"v" * 100] * rows, pa.binary())})

    _, placed = encoder.encode(RowPartitioner("clicks", 6, range(6)), table)

    sizes = [len(batch.data) for _, batches in placed for batch in batches]
    assert sum(batch.records for _, batches in placed for batch in batches) == rows
    assert max(sizes) <= BATCH_BYTES
    assert min(sizes) > max(sizes) * 0.8


@pytest.mark.parametrize(
    ("names", "anywhere"), [(["value"], True), (["value", "key"], False), (["partition"], False)]
)
def test_rows_with_a_key_or_a_partition_do_not_go_anywhere(
    names: list[str], anywhere: bool
) -> None:
    partitioner = RowPartitioner("clicks", 6, range(6))
    columns = pa.table({name: pa.array([1]) for name in names})

    assert partitioner.goes_anywhere(columns) is anywhere
