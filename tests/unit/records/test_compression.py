"""The codecs: Kafka's framings, levels, and inflation that cannot be made to grow."""

import gzip
import os
import struct
import tracemalloc

import cramjam
import pytest

from headrace.model.error import BatchTooLarge, CorruptBatch, InvalidArgument
from headrace.records.compression import (
    XERIAL_MAGIC,
    Codec,
    check_level,
    codec_named,
    compress,
    guess_inflated_bytes,
    inflate,
    inflate_into,
)

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"a headrace brings the water to the wheel. " * 3000


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, os.urandom(200_000)], ids=len)
def test_what_is_compressed_inflates_to_the_same(codec, data):
    compressed = compress(codec, data)

    assert bytes(inflate(codec, compressed, 10**6)) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_compressing_makes_text_smaller(codec):
    assert len(compress(codec, TEXT)) < len(TEXT) / 5


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.ZSTD, 1, 19), (Codec.LZ4, 1, 12)]
)
def test_a_higher_level_makes_it_no_larger(codec, low, high):
    assert len(compress(codec, TEXT, high)) <= len(compress(codec, TEXT, low))


def test_a_level_outside_the_codecs_range_is_refused():
    with pytest.raises(InvalidArgument, match="level 10 is outside what gzip takes: 1 to 9"):
        check_level(Codec.GZIP, 10)


def test_a_codec_without_levels_takes_none():
    with pytest.raises(InvalidArgument, match="snappy has no levels"):
        check_level(Codec.SNAPPY, 3)


def test_codecs_have_kafkas_names_and_numbers():
    assert [codec_named(n) for n in ("none", "gzip", "snappy", "lz4", "zstd")] == list(range(5))
    assert codec_named(3) is Codec.LZ4
    with pytest.raises(InvalidArgument, match="'brotli' is no compression codec"):
        codec_named("brotli")


def test_lz4_frames_have_independent_blocks_as_kafkas_java_reader_demands():
    flags = bytes(compress(Codec.LZ4, TEXT))[4]

    assert flags & 0x20


def test_snappy_has_xerial_framing():
    compressed = bytes(compress(Codec.SNAPPY, TEXT))

    assert compressed.startswith(XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    (length,) = struct.unpack_from(">i", compressed, 16)
    block = bytes(cramjam.snappy.decompress_raw(compressed[20 : 20 + length]))
    assert TEXT.startswith(block) and block


def test_raw_snappy_is_read_too():
    raw = bytes(cramjam.snappy.compress_raw(TEXT))

    assert bytes(inflate(Codec.SNAPPY, raw, len(TEXT))) == TEXT


def test_linked_lz4_frames_are_read_too():
    assert bytes(inflate(Codec.LZ4, bytes(cramjam.lz4.compress(TEXT)), len(TEXT))) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_bound_is_exact(codec):
    compressed = compress(codec, TEXT)

    assert len(inflate(codec, compressed, len(TEXT))) == len(TEXT)
    with pytest.raises(BatchTooLarge, match=f"{codec.name.lower()} batch .* {len(TEXT) - 1} bytes"):
        inflate(codec, compressed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_refused_without_holding_what_it_inflates_to(codec):
    bomb = bytes(compress(codec, bytes(200 * 1024 * 1024)))
    tracemalloc.start()

    with pytest.raises(BatchTooLarge):
        inflate(codec, bomb, 1024 * 1024)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 1024 * 1024


def lying_gzip() -> bytes:
    honest = gzip.compress(bytes(10_000_000))
    return honest[:-4] + struct.pack("<I", 5)


def lying_snappy() -> bytes:
    return b"\xff\xff\xff\xff\x0f" + bytes(cramjam.snappy.compress_raw(bytes(100_000)))[3:]


def lying_zstd() -> bytes:
    frame = bytearray(cramjam.zstd.compress(bytes(10_000_000)))
    assert frame[4] >> 6 == 2  # a content size of four bytes
    at = 5 if frame[4] & 0x20 else 6
    frame[at : at + 4] = struct.pack("<I", 2**32 - 1)
    return bytes(frame)


def lying_lz4() -> bytes:
    frame = bytes(compress(Codec.LZ4, bytes(10_000)))
    flags = bytes([frame[4] | 0x08])
    return frame[:4] + flags + frame[5:6] + struct.pack("<Q", 2**60) + frame[6:]


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Codec.GZIP, lying_gzip()),
        (Codec.SNAPPY, lying_snappy()),
        (Codec.ZSTD, lying_zstd()),
        (Codec.LZ4, lying_lz4()),
    ],
)
def test_a_lie_about_the_size_costs_an_error_and_no_memory(codec, data):
    with pytest.raises((BatchTooLarge, CorruptBatch)):
        inflate(codec, data, 1024 * 1024)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_cut_off_bytes_are_corrupt(codec):
    compressed = bytes(compress(codec, TEXT))

    for size in (1, 5, 15, 17, len(compressed) // 2, len(compressed) - 1):
        with pytest.raises(CorruptBatch):
            inflate(codec, compressed[:size], 10**6)


@pytest.mark.parametrize("length", [-1, 0, 10**6])
def test_a_snappy_block_that_reaches_past_the_end_is_corrupt(length):
    data = XERIAL_MAGIC + struct.pack(">iii", 1, 1, length) + b"abc"

    with pytest.raises(CorruptBatch, match=f"claims {length} bytes"):
        inflate(Codec.SNAPPY, data, 1000)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_inflating_into_too_little_room_says_so(codec):
    assert inflate_into(codec, compress(codec, TEXT), bytearray(100)) is None


def test_sizes_that_are_written_down_are_guessed_exactly():
    for codec in (Codec.GZIP, Codec.ZSTD):
        assert guess_inflated_bytes(codec, compress(codec, TEXT)) == len(TEXT)
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert guess_inflated_bytes(Codec.SNAPPY, raw) == len(TEXT)
