from pathlib import Path

import numpy as np
import pytest

from headrace.log.compaction.offset_map import SLOT_BYTES, OffsetMap
from headrace.log.compaction.segment_chunk import ChunkReader, SegmentChunk
from headrace.model.error import InvalidArgument
from headrace.records.kernel import batch_table
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch


def chunk_of(*keys: bytes) -> SegmentChunk:
    disk = CrashDisk()
    file = disk.open(Path("/0.log"), create=True)
    file.pwritev([keyed_batch([KeyedRecord(key, b"v") for key in keys])], 0)
    (chunk,) = ChunkReader(1 << 16, on_read=lambda size: None).read(file, 0, file.size())
    chunk.batches[:, batch_table.PLAN] = batch_table.PLAN_FILTER
    return chunk


def test_holds_the_newest_offset_of_a_key() -> None:
    chunk = chunk_of(b"a", b"b", b"a", b"")
    offset_map = OffsetMap(1 << 12)
    offset_map.reset(4)

    assert offset_map.fill(chunk.data, chunk.batches, 0, 1, 0) == (1, -1)

    assert [offset_map.newest(key) for key in (b"a", b"b", b"", b"c")] == [2, 1, 3, None]
    assert offset_map.used == 3


def test_leaves_out_what_lies_below_the_start_offset() -> None:
    chunk = chunk_of(b"a", b"b")
    offset_map = OffsetMap(1 << 12)
    offset_map.reset(4)

    offset_map.fill(chunk.data, chunk.batches, 0, 1, 1)

    assert offset_map.newest(b"a") is None


def test_tells_the_first_offset_that_did_not_fit() -> None:
    chunk = chunk_of(b"a", b"b", b"a", b"c", b"d")
    offset_map = OffsetMap(3 * SLOT_BYTES)
    offset_map.reset(1000)

    full = offset_map.fill(chunk.data, chunk.batches, 0, 1, 0)

    assert offset_map.capacity == 2
    assert full == (0, 3)


def test_stays_within_its_memory() -> None:
    offset_map = OffsetMap(1 << 16)

    offset_map.reset(10**12)

    assert offset_map.memory_bytes <= 1 << 16


def test_takes_no_more_memory_than_the_expected_keys_need() -> None:
    offset_map = OffsetMap(1 << 30)

    offset_map.reset(100)

    assert offset_map.capacity >= 100
    assert offset_map.memory_bytes < 100 * 2 * SLOT_BYTES


def test_forgets_everything_on_reset() -> None:
    chunk = chunk_of(b"a")
    offset_map = OffsetMap(1 << 12)
    offset_map.reset(4)
    offset_map.fill(chunk.data, chunk.batches, 0, 1, 0)

    offset_map.reset(4)

    assert (offset_map.used, offset_map.newest(b"a")) == (0, None)


def test_draws_a_new_secret_for_each_map() -> None:
    offset_map = OffsetMap(1 << 12)
    before = offset_map.secret

    offset_map.reset(1)

    assert not np.array_equal(before, offset_map.secret)


@pytest.mark.parametrize(
    "arguments", [{"memory_bytes": 47}, {"memory_bytes": 1 << 20, "load_factor": 1.0}]
)
def test_refuses_bounds_that_hold_no_key(arguments: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        OffsetMap(**arguments)  # type: ignore[arg-type]


def test_refuses_a_secret_of_another_size() -> None:
    with pytest.raises(InvalidArgument, match="8 bytes, not 16"):
        OffsetMap(1 << 12, secret=b"8 bytes!")
