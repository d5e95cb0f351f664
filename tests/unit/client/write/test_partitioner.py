"""A key's partition is the one that Kafka's own clients choose."""

import pytest

from headrace.client.write import partitioner
from headrace.client.write.partitioner import KEPT_KEY_BYTES, murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_numbers_of_kafkas_own_tests(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32


def test_every_key_has_a_partition() -> None:
    assert {partition_of(b"%d" % number, 7) for number in range(200)} == set(range(7))


def test_short_keys_are_kept_and_long_ones_are_not() -> None:
    partitioner._kept.cache_clear()
    for size in (KEPT_KEY_BYTES, KEPT_KEY_BYTES + 1, 1 << 20):
        key = bytes(size)
        assert partition_of(key, 7) == (murmur2(key) & 0x7FFFFFFF) % 7
    assert partitioner._kept.cache_info().currsize == 1
