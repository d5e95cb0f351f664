"""The scan of many heads at once says what reading them one by one says."""

import numpy as np
import pytest

from headrace.model.error import CorruptBatch, UnsupportedBatch
from headrace.records.batch import iter_batches
from headrace.records.heads import scan_heads
from headrace.records.kernel import heads as kernel


def test_the_table_holds_what_the_heads_say(a_batch):
    data = memoryview(
        a_batch(b"a", b"b", leader_epoch=3)
        + a_batch(
            b"c",
            base_offset=2,
            codec="gzip",
            producer_id=2**50,
            producer_epoch=12,
            base_sequence=2**31 - 1,
            transactional=True,
        )
    )

    table = scan_heads(data).table

    for row, batch in zip(table, iter_batches(data), strict=True):
        assert row[kernel.POSITION] == batch.position
        assert row[kernel.SIZE] == batch.size_bytes
        assert row[kernel.BASE_OFFSET] == batch.base_offset
        assert row[kernel.LEADER_EPOCH] == batch.leader_epoch
        assert row[kernel.CRC] == batch.crc
        assert row[kernel.ATTRIBUTES] == batch.attributes
        assert row[kernel.LAST_DELTA] == batch.last_offset_delta
        assert row[kernel.BASE_TIMESTAMP] == batch.base_timestamp
        assert row[kernel.MAX_TIMESTAMP] == batch.max_timestamp
        assert row[kernel.PRODUCER_ID] == batch.producer_id
        assert row[kernel.PRODUCER_EPOCH] == batch.producer_epoch
        assert row[kernel.BASE_SEQUENCE] == batch.base_sequence
        assert row[kernel.COUNT] == batch.record_count


def test_more_batches_than_the_first_table_holds_are_found(a_batch):
    data = b"".join(a_batch(b"x", base_offset=n) for n in range(700))

    heads = scan_heads(memoryview(data))

    assert np.array_equal(heads.table[:, kernel.BASE_OFFSET], np.arange(700))
    assert (heads.selected_count, heads.consumed_bytes) == (700, len(data))


def test_pieces_cover_every_batch_once(a_batch):
    heads = scan_heads(memoryview(b"".join(a_batch(b"x", base_offset=n) for n in range(50))))

    for size in (1, 100, 1000, 10**9):
        rows = [row for first, past in heads.pieces(size) for row in range(first, past)]
        assert rows == list(range(50))


@pytest.mark.parametrize(
    ("position", "byte", "error"),
    [(16, 0, UnsupportedBatch), (22, 6, CorruptBatch), (8, 0x80, CorruptBatch)],
)
def test_a_head_that_cannot_be_true_is_named(a_batch, position, byte, error):
    good = a_batch(b"a")
    bad = bytearray(a_batch(b"b"))
    bad[position] = byte

    with pytest.raises(error, match=f"batch at byte {len(good)}"):
        scan_heads(memoryview(good + bad))
