"""A batch in another codec holds the same records under a sound head."""

import pytest

from headrace.model.error import BatchTooLarge
from headrace.records.batch import Batch
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed
from headrace.records.record import build_batch, iter_records

PAIRS = [(b"k%d" % n, b"value " * 50) for n in range(20)]
LIMIT = 10 * 1024 * 1024


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_the_records_are_the_same_in_every_codec(source: Codec, target: Codec) -> None:
    plain = Batch(build_batch(PAIRS, 1000, producer_id=7, producer_epoch=1, base_sequence=3))
    batch = recompressed(plain, source, None, max_inflated_bytes=LIMIT)

    changed = recompressed(batch, target, None, max_inflated_bytes=LIMIT)

    changed.validate(from_client=True)
    assert changed.compression == target
    assert (changed.producer_id, changed.base_sequence) == (7, 3)
    assert list(iter_records(changed)) == list(iter_records(plain))


def test_a_batch_in_the_right_codec_is_left_alone() -> None:
    batch = Batch(build_batch(PAIRS, 1000))

    assert recompressed(batch, Codec.NONE, None, max_inflated_bytes=LIMIT) is batch


def test_a_level_outside_the_codecs_range_is_brought_into_it() -> None:
    batch = Batch(build_batch(PAIRS, 1000))

    changed = recompressed(batch, Codec.ZSTD, -131072, max_inflated_bytes=LIMIT)

    assert list(iter_records(changed)) == list(iter_records(batch))


def test_a_bomb_is_refused() -> None:
    bomb = recompressed(
        Batch(build_batch([(b"k", bytes(1_000_000))], 1000)),
        Codec.GZIP,
        None,
        max_inflated_bytes=LIMIT,
    )

    with pytest.raises(BatchTooLarge):
        recompressed(bomb, Codec.NONE, None, max_inflated_bytes=100_000)
