"""Fetched ranges to chunks: their size, where each ends, and what a damaged batch does."""

import pyarrow as pa
import pytest

from headrace.client.error import DamagedBatch
from headrace.client.read.chunk import Chunk, ChunkDecoder
from headrace.client.read.cursor import FetchedRange
from headrace.model.ids import TopicPartition
from headrace.records.decode import Layout
from headrace.records.encode import encode

CLICKS = TopicPartition("clicks", 0)


def batch(base_offset: int, count: int, size: int = 1, codec: str = "none") -> bytes:
    values = [b"%d" % (number % 10) * size for number in range(base_offset, base_offset + count)]
    rows = pa.record_batch({"value": values})
    return encode(rows, timestamp_ms=0, base_offset=base_offset, codec=codec).data


def fetched(
    data: bytes, offset: int = 0, end: int | None = None, next_offset: int = 99
) -> FetchedRange:
    return FetchedRange(CLICKS, offset, end, next_offset, memoryview(data))


class Decoding:
    """A decoder and the bytes it was done with."""

    def __init__(self, rows: int = 100, layout: Layout = "binary", *columns: str) -> None:
        self.given_back = 0
        self.decoder = ChunkDecoder(columns or ("offset", "value"), layout, rows, self._done)

    def _done(self, size: int) -> None:
        self.given_back += size


def offsets(chunk: Chunk) -> list[int]:
    found: list[int] = chunk.columns["offset"].to_pylist()
    return found


def test_a_chunk_has_no_more_rows_than_allowed() -> None:
    chunks = list(Decoding(rows=4).decoder.chunks(fetched(batch(0, 6) + batch(8, 3))))

    assert [offsets(chunk) for chunk in chunks] == [[0, 1, 2, 3], [4, 5, 8, 9], [10]]
    assert [chunk.next_offset for chunk in chunks] == [4, 10, 99]


def test_offsets_need_not_be_shown() -> None:
    [first, last] = Decoding(2, "binary", "value").decoder.chunks(fetched(batch(0, 4)))

    assert first.columns.schema.names == ["value"]
    assert (first.next_offset, last.next_offset) == (2, 99)


@pytest.mark.parametrize("layout", ["binary", "view"])
def test_all_bytes_are_released(layout: Layout) -> None:
    decoding = Decoding(1, layout)
    data = batch(0, 3)

    chunks = decoding.decoder.chunks(fetched(data))
    next(chunks)
    # Views point into the bytes: they are held until the next range is decoded.
    assert decoding.given_back == (len(data) if layout == "binary" else 0)
    assert len(list(chunks)) == 2
    assert decoding.given_back == len(data)


def test_a_range_without_bytes_has_no_chunk() -> None:
    assert list(Decoding().decoder.chunks(fetched(b""))) == []


def test_a_batch_that_inflates_to_more_than_usual_comes_too() -> None:
    data = batch(0, 1, size=70_000_000, codec="zstd")

    [chunk] = Decoding().decoder.chunks(fetched(data))

    assert len(chunk.columns["value"][0].as_buffer()) == 70_000_000


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_what_stands_before_damage_is_read(codec: str) -> None:
    sound = batch(0, 3, codec=codec) + batch(3, 2, codec=codec)
    broken = bytearray(batch(5, 4, codec=codec))
    broken[-1] ^= 1
    decoding = Decoding()
    found = []

    with pytest.raises(DamagedBatch, match="clicks-0 is damaged at offset 5") as raised:
        for chunk in decoding.decoder.chunks(fetched(sound + broken + batch(9, 1))):
            found += offsets(chunk)

    assert found == [0, 1, 2, 3, 4]
    assert (raised.value.partition, raised.value.offset) == (CLICKS, 5)
    assert "CRC" in raised.value.reason


def test_damage_in_the_first_batch() -> None:
    broken = bytearray(batch(0, 4))
    broken[40] ^= 1
    with pytest.raises(DamagedBatch, match="damaged at offset 2"):
        list(Decoding().decoder.chunks(fetched(bytes(broken), offset=2)))
