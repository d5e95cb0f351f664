from pathlib import Path

import pytest

from headrace.log.compaction.inflater import Inflater
from headrace.log.compaction.segment_chunk import ChunkReader, SegmentChunk
from headrace.log.filesystem import File
from headrace.model.error import UncleanableLog
from headrace.records.batch import build_head
from headrace.records.compression import Codec, compress
from headrace.records.kernel import batch_table
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch


def file_of(*batches: bytes) -> File:
    file = CrashDisk().open(Path("/0.log"), create=True)
    file.pwritev([b"".join(batches)], 0)
    return file


def batch(base_offset: int, size: int = 10, codec: Codec = Codec.NONE) -> bytes:
    return keyed_batch([KeyedRecord(b"k", b"v" * size)], base_offset=base_offset, codec=codec)


def read(file: File, chunk_bytes: int = 1024) -> list[list[int]]:
    """The base offsets of the batches in each chunk."""
    reader = ChunkReader(chunk_bytes, on_read=lambda size: None)
    return [
        chunk.batches[:, batch_table.BASE_OFFSET].tolist()
        for chunk in reader.read(file, 0, file.size())
    ]


def only_chunk(file: File) -> SegmentChunk:
    (chunk,) = ChunkReader(1 << 16, on_read=lambda size: None).read(file, 0, file.size())
    return chunk


def test_a_chunk_holds_whole_batches() -> None:
    file = file_of(batch(0, 400), batch(1, 400), batch(2, 400))

    assert read(file) == [[0, 1], [2]]


def test_a_batch_larger_than_a_chunk_comes_alone() -> None:
    file = file_of(batch(0), batch(1, 5000), batch(2))

    assert read(file) == [[0], [1], [2]]


def test_reads_between_two_positions() -> None:
    first = batch(0)
    file = file_of(first, batch(1), batch(2))
    reader = ChunkReader(1024, on_read=lambda size: None)

    (chunk,) = reader.read(file, len(first), 2 * len(first))

    assert (chunk.position, chunk.batches[:, batch_table.BASE_OFFSET].tolist()) == (len(first), [1])


def test_tells_the_size_of_each_read() -> None:
    file = file_of(batch(0), batch(1))
    sizes: list[int] = []

    list(ChunkReader(1024, on_read=sizes.append).read(file, 0, file.size()))

    assert sizes == [file.size()]


def test_knows_every_field_of_a_head() -> None:
    file = file_of(
        keyed_batch(
            [KeyedRecord(b"a", b"1", 50), KeyedRecord(b"b", b"2", 40)],
            base_offset=7,
            last_offset=11,
            attributes=0x10,
            producer_id=2**40,
            producer_epoch=3,
        )
    )

    row = only_chunk(file).batches[0].tolist()

    assert row[batch_table.BASE_OFFSET : batch_table.COUNT + 1] == [
        7,
        11,
        0x10,
        50,
        50,
        2**40,
        3,
        2,
    ]


def test_an_inflated_batch_comes_alone_between_runs_of_others() -> None:
    chunk = only_chunk(file_of(batch(0), batch(1), batch(2, codec=Codec.GZIP), batch(3)))
    chunk.batches[:, batch_table.PLAN] = batch_table.PLAN_FILTER

    runs = [(first, last) for _, first, last in chunk.bodies(Inflater(1 << 20))]

    assert runs == [(0, 2), (2, 3), (3, 4)]


def test_a_compressed_batch_that_is_only_copied_is_not_inflated() -> None:
    chunk = only_chunk(file_of(batch(0), batch(1, codec=Codec.GZIP)))

    assert [(first, last) for _, first, last in chunk.bodies(Inflater(0))] == [(0, 2)]


@pytest.mark.parametrize("position", [8, 16, 23, 57, 70])
def test_a_changed_byte_is_found_and_placed(position: int) -> None:
    first = batch(0)
    data = bytearray(first + batch(1))
    data[len(first) + position] ^= 0x81

    with pytest.raises(UncleanableLog, match=f"/0.log is damaged at byte {len(first)}"):
        read(file_of(bytes(data)))


def test_a_batch_that_is_cut_off_is_damage() -> None:
    with pytest.raises(UncleanableLog, match="cut off"):
        read(file_of(batch(0)[:-1]))


def test_a_head_that_is_cut_off_is_damage() -> None:
    with pytest.raises(UncleanableLog, match="cut off"):
        read(file_of(batch(0), batch(1)[:40]))


def test_a_count_that_the_bytes_cannot_hold_is_damage() -> None:
    packed = bytes(compress(Codec.GZIP, b"\x0c\0\0\0\x01\x01\0"))
    head = build_head(packed, attributes=1, last_offset_delta=10**6, record_count=10**6)
    chunk = only_chunk(file_of(head + packed))
    chunk.batches[:, batch_table.PLAN] = batch_table.PLAN_FILTER

    with pytest.raises(UncleanableLog, match="1000000 records"):
        list(chunk.bodies(Inflater(1 << 20)))
