"""Memory that batches are inflated into one after the other: what it holds, and for how long."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from headrace.model.error import BatchTooLarge, CorruptBatch
from headrace.records.compression import Codec, compress, inflate
from headrace.records.inflate_buffer import KEPT_BYTES, InflateBuffer

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LIMIT = 16 * 1024 * 1024


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 1, 300_000, KEPT_BYTES, KEPT_BYTES + 1])
def test_it_inflates_to_the_same_bytes_as_inflate(codec, size):
    data = os.urandom(1000) * (size // 1000) + os.urandom(size % 1000)
    packed = compress(codec, data)
    buffer = InflateBuffer()
    buffer.inflate(Codec.LZ4, compress(Codec.LZ4, b"left from before" * 1000), LIMIT)

    assert bytes(buffer.inflate(codec, packed, LIMIT)) == data
    assert bytes(inflate(codec, packed, LIMIT)) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_batch_reuses_the_memory_of_the_one_before(codec):
    buffer = InflateBuffer()
    first = buffer.inflate(codec, compress(codec, b"a" * 5000), LIMIT)
    second = buffer.inflate(codec, compress(codec, b"b" * 5000), LIMIT)

    assert first.obj is second.obj
    assert bytes(first) == b"b" * 5000


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("limit", [1000, KEPT_BYTES, KEPT_BYTES + 1000])
def test_no_more_is_inflated_than_is_allowed(codec, limit):
    buffer = InflateBuffer()

    assert len(buffer.inflate(codec, compress(codec, bytes(limit)), limit)) == limit
    with pytest.raises(BatchTooLarge, match=f"more than the {limit} bytes allowed"):
        buffer.inflate(codec, compress(codec, bytes(limit + 1)), limit)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bytes_that_are_cut_off_are_refused(codec):
    packed = bytes(compress(codec, os.urandom(5000)))

    with pytest.raises(CorruptBatch):
        InflateBuffer().inflate(codec, packed[:-2000], LIMIT)


def test_threads_do_not_share_memory():
    buffer = InflateBuffer()
    both = Barrier(2)

    def inflate_beside_the_other(letter: bytes) -> bytes:
        rows = buffer.inflate(Codec.ZSTD, compress(Codec.ZSTD, letter * 5000), LIMIT)
        both.wait()
        return bytes(rows)

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(inflate_beside_the_other, (b"a", b"b")))

    assert found == [b"a" * 5000, b"b" * 5000]
