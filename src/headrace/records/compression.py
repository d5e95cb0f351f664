"""The four codecs of Kafka's batches, in Kafka's framings, with inflation that is always bounded.

A batch's records are compressed as one piece. Framings that other clients insist on:

- gzip: plain gzip members.
- snappy: the "xerial" framing of Java's SnappyOutputStream: magic, two int32 versions, then blocks
  of `int32 length, raw snappy`. Some clients send bare raw snappy; that is read too.
- lz4: the lz4 frame format with independent blocks (Kafka's Java reader refuses linked ones).
- zstd: plain zstd frames.

The bound: a compressed batch says nothing about its inflated size that could be believed. gzip's
trailer, the content sizes of lz4 and zstd and snappy's length are all written by the peer. Here
they are only a first guess for the size of the output buffer. The codec writes into that buffer
and stops at its end, so a lie costs at most a retry with a larger one, never more than the bound.
"""

from collections.abc import Callable
from enum import IntEnum
from mmap import mmap
from struct import Struct
from typing import Final

import cramjam

from headrace.model.error import BatchTooLarge, CorruptBatch, InvalidArgument, UnsupportedBatch
from headrace.records.batch import Buffer, view_of


class Codec(IntEnum):
    """The number in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# What Kafka's compression.{gzip,lz4,zstd}.level take, and their defaults.
LEVELS: Final = {Codec.GZIP: (1, 9, 6), Codec.LZ4: (1, 17, 9), Codec.ZSTD: (-131072, 22, 3)}

XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
# Java's SnappyOutputStream uses 32 KiB; snappy itself never looks back further than 64 KiB.
_XERIAL_BLOCK_BYTES = 64 * 1024
_INT32 = Struct(">i")
_LITTLE_UINT32 = Struct("<I")
_LITTLE_UINT64 = Struct("<Q")
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GUESSED_RATIO = 5
_SLICE_BYTES = 1024 * 1024
_SMALLEST_GUESS = 4096
# What Rust's io::Write says when the output is full; every cramjam codec passes it on.
_FULL = "failed to write whole buffer"


def codec_named(name: "str | int | Codec") -> Codec:
    """Return the codec a user means by Kafka's name for it, or by its number.

    >>> codec_named("zstd")
    <Codec.ZSTD: 4>
    """
    try:
        return Codec[name.upper()] if isinstance(name, str) else Codec(name)
    except (KeyError, ValueError):
        known = ", ".join(codec.name.lower() for codec in Codec)
        raise InvalidArgument(f"{name!r} is no compression codec: write one of {known}") from None


def check_level(codec: Codec, level: int | None) -> int | None:
    """Return `level`, or the codec's default for None.

    Raises:
        InvalidArgument: the codec has no levels, or not this one.
    """
    bounds = LEVELS.get(codec)
    if bounds is None:
        if level is not None:
            raise InvalidArgument(f"{codec.name.lower()} has no levels, so {level} means nothing")
        return None
    lowest, highest, default = bounds
    if level is None:
        return default
    if not lowest <= level <= highest:
        raise InvalidArgument(
            f"level {level} is outside what {codec.name.lower()} takes: {lowest} to {highest}"
        )
    return level


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """Return `data` in Kafka's framing of `codec`, as something a memoryview can be made of."""
    level = check_level(codec, level)
    if codec is Codec.NONE:
        return data
    if codec is Codec.GZIP:
        return memoryview(cramjam.gzip.compress(data, level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(view_of(data))
    if codec is Codec.LZ4:
        # No content checksum: the batch's CRC32C covers these bytes already.
        lz4 = cramjam.lz4.Compressor(level, content_checksum=False, block_linked=False)
        view = view_of(data)
        for start in range(0, len(view), _SLICE_BYTES):
            # It takes nothing but bytes. In slices, because a copy holds the GIL.
            lz4.compress(bytes(view[start : start + _SLICE_BYTES]))
        return memoryview(lz4.finish())
    return memoryview(cramjam.zstd.compress(data, level))


def _compress_xerial(view: memoryview) -> bytes:
    parts = [_XERIAL_HEAD]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)  # type: ignore[arg-type]
    return b"".join(parts)


def inflate(codec: Codec, data: Buffer, max_inflated_bytes: int) -> memoryview:
    """Return the inflated bytes, in a buffer of their own.

    Raises:
        BatchTooLarge: there are more than `max_inflated_bytes`; never that much was held.
        CorruptBatch: the bytes are not what the codec writes.
    """
    if codec is Codec.NONE:
        return view_of(data)
    capacity = min(guess_inflated_bytes(codec, data), max_inflated_bytes)
    while True:
        out = _writable(capacity)
        size = inflate_into(codec, data, out)
        if size is not None:
            return out[:size]
        if capacity >= max_inflated_bytes:
            raise inflates_to_more(codec, data, max_inflated_bytes)
        capacity = min(capacity * 4, max_inflated_bytes)


def inflates_to_more(codec: Codec, data: Buffer, max_inflated_bytes: int) -> BatchTooLarge:
    """Return the error of a batch that inflates to more than is allowed."""
    return BatchTooLarge(
        f"A {codec.name.lower()} batch of {len(data)} bytes inflates to more than "
        f"the {max_inflated_bytes} bytes allowed."
    )


def _writable(size_bytes: int) -> memoryview:
    """Return memory to inflate into. A large bytearray is filled with zeros while the GIL is held,
    which stops every other thread for 2 ms a MiB; pages of a map come when the codec writes."""
    if size_bytes <= _SLICE_BYTES:
        return memoryview(bytearray(size_bytes))
    return memoryview(mmap(-1, size_bytes))


def guess_inflated_bytes(codec: Codec, data: Buffer) -> int:
    """Return what the compressed bytes say about their inflated size. It may be a lie: never
    allocate it without a bound, and expect that it does not suffice.
    """
    view = view_of(data)
    guess = _GUESSERS[codec](view)
    return max(_SMALLEST_GUESS, guess if guess is not None else len(view) * _GUESSED_RATIO)


def is_in_few_blocks(data: Buffer, most: int) -> bool:
    """Return whether snappy bytes have at most `most` blocks in front of where they end, or stop
    making sense. Each takes a microsecond to inflate, and four bytes may be one."""
    view = view_of(data)
    if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return True
    at = len(_XERIAL_HEAD)
    for _ in range(most):
        if len(view) - at < _INT32.size:
            return True
        (length,) = _INT32.unpack_from(view, at)
        if length <= 0:
            return True
        at += _INT32.size + length
    return at >= len(view)


def inflate_into(codec: Codec, data: Buffer, out: Buffer) -> int | None:
    """Inflate into `out` and return the number of bytes, or None when they do not fit.

    Raises:
        CorruptBatch: the bytes are not what the codec writes.
    """
    try:
        return _INFLATERS[codec](view_of(data), out)
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            return None
        raise CorruptBatch(
            f"The {codec.name.lower()} bytes of a batch do not inflate: {error}."
        ) from error
    except KeyError:
        raise UnsupportedBatch(f"Compression codec {codec} cannot be inflated.") from None


def _inflate_gzip(view: memoryview, out: Buffer) -> int:
    return int(cramjam.gzip.decompress_into(view, out))


def _inflate_lz4(view: memoryview, out: Buffer) -> int:
    return int(cramjam.lz4.decompress_into(view, out))


def _inflate_zstd(view: memoryview, out: Buffer) -> int:
    return int(cramjam.zstd.decompress_into(view, out))


def _inflate_snappy(view: memoryview, out: Buffer) -> int | None:
    if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _inflate_raw_snappy(view, view_of(out))
    if len(view) < len(_XERIAL_HEAD):
        raise CorruptBatch("The snappy bytes of a batch end inside their head.")
    target = view_of(out)
    at, written = len(_XERIAL_HEAD), 0
    while at < len(view):
        if len(view) - at < _INT32.size:
            raise CorruptBatch("The snappy bytes of a batch end inside a block's length.")
        (length,) = _INT32.unpack_from(view, at)
        at += _INT32.size
        if not 0 < length <= len(view) - at:
            raise CorruptBatch(
                f"A snappy block claims {length} bytes, and {len(view) - at} are left."
            )
        size = _inflate_raw_snappy(view[at : at + length], target[written:])
        if size is None:
            return None
        at += length
        written += size
    return written


def _inflate_raw_snappy(view: memoryview, out: memoryview) -> int | None:
    if cramjam.snappy.decompress_raw_len(view) > len(out):
        return None
    return int(cramjam.snappy.decompress_raw_into(view, out))


_INFLATERS: dict[Codec, Callable[[memoryview, Buffer], int | None]] = {
    Codec.GZIP: _inflate_gzip,
    Codec.SNAPPY: _inflate_snappy,
    Codec.LZ4: _inflate_lz4,
    Codec.ZSTD: _inflate_zstd,
}


def _guess_gzip(view: memoryview) -> int | None:
    """Read ISIZE, the last four bytes: the size of the last member modulo 2^32."""
    if len(view) < 18:
        return None
    (size,) = _LITTLE_UINT32.unpack_from(view, len(view) - 4)
    return int(size)


def _guess_snappy(view: memoryview) -> int | None:
    if view[: len(XERIAL_MAGIC)] == XERIAL_MAGIC:
        return None
    try:
        return int(cramjam.snappy.decompress_raw_len(view))
    except cramjam.DecompressionError:
        return None


def _guess_lz4(view: memoryview) -> int | None:
    """Read the content size, eight bytes behind the flags, if bit 3 of the flags says so."""
    if len(view) < 14 or view[:4] != _LZ4_MAGIC or not view[4] & 0x08:
        return None
    (size,) = _LITTLE_UINT64.unpack_from(view, 6)
    return int(size)


def _guess_zstd(view: memoryview) -> int | None:
    """Read the frame content size (RFC 8878, 3.1.1.1), which streaming compressors leave out."""
    if len(view) < 18 or view[:4] != _ZSTD_MAGIC:
        return None
    descriptor = view[4]
    single_segment = descriptor & 0x20
    width = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    if width == 0:
        return None
    at = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(view[at : at + width], "little")
    return size + 256 if width == 2 else size


_GUESSERS: dict[Codec, Callable[[memoryview], int | None]] = {
    Codec.NONE: len,
    Codec.GZIP: _guess_gzip,
    Codec.SNAPPY: _guess_snappy,
    Codec.LZ4: _guess_lz4,
    Codec.ZSTD: _guess_zstd,
}
