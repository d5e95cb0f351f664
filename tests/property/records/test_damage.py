"""Damaged bytes: whatever is flipped or cut, there is an error of ours or a decoded result.

The CRC would stop nearly all of it, so it is made right again: what is tested is everything behind.
"""

import random
import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.error import BatchTooLarge, CorruptBatch, UnsupportedBatch
from headrace.records.batch import Batch, iter_batches
from headrace.records.decode import decode
from headrace.records.encode import encode

some = settings(deadline=None, max_examples=40)

layouts = st.sampled_from(["binary", "view"])


@pytest.fixture(scope="session", params=["none", "gzip", "snappy", "lz4", "zstd"])
def sound(request, columns, make_record) -> bytes:
    chance = random.Random(7)
    records = [
        make_record(
            chance.randrange(2**41),
            chance.choice([None, b"", b"key", chance.randbytes(200)]),
            chance.choice([None, b"", chance.randbytes(70)]),
            [("h", b"x"), ("ü", None)][: chance.randrange(3)],
        )
        for _ in range(20)
    ]
    return encode(columns.of(records), codec=request.param, max_batch_bytes=900).data


def repaired(data: bytes) -> bytes:
    """The same with true CRCs, as far as its heads can be followed."""
    fixed = bytearray(data)
    try:
        for batch in iter_batches(data):
            crc = crc32c(data[batch.position + 21 : batch.end])
            struct.pack_into(">I", fixed, batch.position + 17, crc)
    except (CorruptBatch, UnsupportedBatch):
        pass
    return bytes(fixed)


def survives(data: bytes, layout: str) -> None:
    try:
        found = decode(data, layout=layout, max_inflated_bytes=10**6)
    except (CorruptBatch, UnsupportedBatch, BatchTooLarge) as error:
        assert str(error)
    else:
        found.columns.validate(full=True)


@some
@given(flips=st.lists(st.tuples(st.integers(0), st.integers(1, 255)), max_size=4), layout=layouts)
def test_flipped_bytes(sound, flips, layout):
    data = bytearray(sound)
    for position, mask in flips:
        data[position % len(data)] ^= mask

    survives(repaired(bytes(data)), layout)


@some
@given(start=st.integers(0), size=st.integers(1, 40), layout=layouts)
def test_missing_bytes(sound, start, size, layout):
    start %= len(sound)

    survives(repaired(sound[:start] + sound[start + size :]), layout)


@some
@given(content=st.binary(max_size=120), count=st.integers(-1, 40), codec=st.integers(0, 7))
def test_records_of_random_bytes(content, count, codec):
    head = struct.pack(">hiqqqhii", codec, max(count - 1, 0), 0, 0, -1, -1, -1, count)
    crc = crc32c(head + content)
    data = struct.pack(">qiibI", 0, 49 + len(content), 0, 2, crc) + head + content

    survives(data, "binary")


@some
@given(st.binary(max_size=200))
def test_random_bytes(content):
    survives(content, "binary")
    if len(content) >= 61:
        with pytest.raises((CorruptBatch, UnsupportedBatch)):
            Batch(content).validate()
