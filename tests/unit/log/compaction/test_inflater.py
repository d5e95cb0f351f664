"""Batches are inflated in order, small ones ahead, and a fault shows at the turn of its batch."""

import threading

import pytest

from headrace.log.compaction.inflater import Inflater
from headrace.model.error import BatchTooLarge, CorruptBatch
from headrace.records.batch import Batch, build_head
from headrace.records.compression import Codec, compress


def packed(body: bytes, codec: Codec = Codec.ZSTD) -> Batch:
    content = bytes(compress(codec, body))
    return Batch(
        build_head(content, attributes=codec, last_offset_delta=0, record_count=1) + content
    )


def test_bodies_come_in_order_whatever_their_size() -> None:
    bodies = [b"%d" % number * size for number, size in enumerate([1, 9000, 700_000, 2, 3 << 20])]
    batches = [
        packed(body, codec) for body in bodies for codec in (Codec.ZSTD, Codec.LZ4, Codec.GZIP)
    ]
    with Inflater(8 << 20) as inflater:
        found = [bytes(body) for body in inflater.inflate(batches)]
    assert found == [body for body in bodies for _ in range(3)]


def test_a_damaged_batch_fails_at_its_turn() -> None:
    damaged = Batch(bytes(packed(b"x" * 5000).data)[:-9] + b"123456789")
    with Inflater(1 << 20) as inflater:
        bodies = inflater.inflate([packed(b"one"), packed(b"two"), damaged, packed(b"three")])
        assert [bytes(next(bodies)), bytes(next(bodies))] == [b"one", b"two"]
        with pytest.raises(CorruptBatch):
            next(bodies)


def test_a_batch_above_the_bound_is_refused_and_those_before_it_are_not() -> None:
    with Inflater(100_000) as inflater:
        bodies = inflater.inflate(
            [packed(b"a" * 90_000), packed(b"b" * 90_000), packed(b"c" * 10**6)]
        )
        assert [len(next(bodies)), len(next(bodies))] == [90_000, 90_000]
        with pytest.raises(BatchTooLarge):
            next(bodies)


def test_the_thread_ends_with_the_block_even_if_not_all_was_used() -> None:
    with Inflater(1 << 20) as inflater:
        next(inflater.inflate([packed(b"x" * 1000)] * 2000))
        assert [each for each in threading.enumerate() if each.name.startswith("inflate")]
    assert not [each for each in threading.enumerate() if each.name.startswith("inflate")]
