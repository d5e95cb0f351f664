"""Whether the bytes behind a batch's head are the records that its head counts.

A head with a valid CRC says nothing about its records: 24 bytes of garbage can claim 2^31-1 of
them, take as many offsets, and stop every consumer. So a broker walks the records of each batch
that a producer sends: lengths, fields and headers end where they say, offset deltas count from 0,
and nothing follows the last record.

Of a compressed batch the count is first held to the bytes, before anything is inflated: no codec
expands a byte to more than a known number of bytes, and a record takes seven. gzip reaches 1032 to
1, lz4 255 to 1, snappy 64 bytes with a copy of three, zstd a block of 128 KiB with four bytes.

The walk is a numba kernel (`kernel.framing`). Loading numba takes most of a second, so plain Python
does the same until a broker has seen enough bytes to be worth it; a thread loads the kernel then.

Threads: any.
"""

from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import NamedTuple, TypeAlias

from headrace.model.error import BatchTooLarge, CorruptBatch
from headrace.records.batch import HEADER_BYTES, Batch
from headrace.records.compression import Codec, is_in_few_blocks
from headrace.records.inflate_buffer import InflateBuffer
from headrace.records.varint import MAX_VARLONG_BYTES

NO_KEY = 1
BAD_TIME = 2

_PROBLEMS = {
    1: "its length is cut off or reaches past the end of the batch",
    2: "its timestamp delta is cut off",
    3: "its offset delta does not count on from the record before it",
    4: "its key reaches past the end of the record",
    5: "its value reaches past the end of the record",
    6: "its headers reach past the end of the record",
    7: "its fields do not end where its length says",
    8: "bytes follow it that the batch's record count does not cover",
}
(
    _BAD_LENGTH,
    _BAD_TIMESTAMP,
    _BAD_OFFSET,
    _BAD_KEY,
    _BAD_VALUE,
    _BAD_HEADERS,
    _BAD_END,
    _TRAILING,
) = _PROBLEMS
_MIN_RECORD_BYTES = 7
# How many records one compressed byte can stand for; the same numbers as in `kernel.framing`.
_DENSITY = {Codec.GZIP: 148, Codec.SNAPPY: 4, Codec.LZ4: 37, Codec.ZSTD: 4682}
_MAGIC = {
    Codec.GZIP: b"\x1f\x8b",
    Codec.SNAPPY: b"",
    Codec.LZ4: b"\x04\x22\x4d\x18",
    Codec.ZSTD: b"\x28\xb5\x2f\xfd",
}
_LEAST_COMPRESSED_BYTES = 4
# What producers send with default settings (16 KiB, five-fold), twice over. However it is made, lz4
# takes 0.2 ms for as much, and zstd 2 ms.
_SMALL_BYTES = 32 * 1024
_SMALL_INFLATED_BYTES = 256 * 1024
# gzip can have a new table every 12 bytes, which takes it 6 us; a member every 20 takes 3 us.
_SMALL_GZIP_BYTES = 4 * 1024
# Java's blocks are of 32 KiB; those of clients before 2017 are of 1 KiB.
_MAX_SNAPPY_BLOCKS = 64
# A record or a header takes plain Python about as many microseconds as it has bytes at least.
_SLOW_INFLATED_BYTES = 2 * 1024
_MASK_64 = 2**64 - 1
# Plain Python takes about 2 us for each record; after so many bytes the kernel pays for itself.
_WORTH_A_KERNEL_BYTES = 256 * 1024
_buffer = InflateBuffer()


class Inspection(NamedTuple):
    """What the records of one batch are like.

    Attributes:
        problem: what is wrong with the framing, as a clause about record `record`; None if nothing.
        marks: the number of each record that a topic does not take, with NO_KEY or BAD_TIME.
    """

    problem: str | None
    record: int
    marks: Sequence[tuple[int, int]]


def can_hold(batch: Batch) -> bool:
    """Return whether the bytes of a compressed batch can inflate to the records it counts."""
    codec = Codec(batch.compression)
    rows = batch.records
    magic = _MAGIC[codec]
    return (
        len(rows) >= _LEAST_COMPRESSED_BYTES
        and rows[: len(magic)] == magic
        and batch.record_count <= len(rows) * _DENSITY[codec]
    )


def inflates(batch: memoryview) -> bool:
    """Return whether a small compressed batch holds the records that its head counts, none of them
    newer than its max timestamp.

    It is called where others wait, so it gives up on all that may take longer than one or two
    milliseconds: False says nothing about a batch that is large, inflates to much, or is in more
    pieces than a producer makes.
    """
    if len(batch) > _SMALL_BYTES:
        return False
    head = Batch(batch)
    codec = Codec(head.compression)
    packed = batch[HEADER_BYTES:]
    if codec is Codec.GZIP:
        if len(packed) > _SMALL_GZIP_BYTES:
            return False
    elif codec is Codec.SNAPPY and not is_in_few_blocks(packed, _MAX_SNAPPY_BLOCKS):
        return False
    most_bytes = _SLOW_INFLATED_BYTES if _inspect is _inspect_slowly else _SMALL_INFLATED_BYTES
    try:
        rows = _buffer.inflate(codec, packed, most_bytes)
    except (BatchTooLarge, CorruptBatch):
        return False
    found = inspect(
        rows,
        head.record_count,
        head.base_timestamp,
        needs_key=False,
        oldest_ms=-(2**63),
        newest_ms=head.max_timestamp,
    )
    return found.problem is None and not found.marks


def inspect(
    rows: memoryview,
    count: int,
    base_timestamp: int,
    *,
    needs_key: bool,
    oldest_ms: int,
    newest_ms: int,
) -> Inspection:
    """Walk the records of a batch, inflated, and say what is wrong with them.

    Args:
        needs_key: mark the records without a key.
        oldest_ms, newest_ms: mark the records outside these times. -1, no time, is inside.
    """
    if count > len(rows) // _MIN_RECORD_BYTES:
        return Inspection(_PROBLEMS[_BAD_LENGTH], len(rows) // _MIN_RECORD_BYTES, ())
    return _inspect(rows, count, base_timestamp, needs_key, oldest_ms, newest_ms)


def load_kernel() -> None:
    """Walk with the kernel from now on. Takes most of a second: call it in a thread."""
    global is_sound, _inspect
    import numpy as np

    from headrace.records.kernel import framing as kernel
    from headrace.records.kernel.memory import readable

    def inspect_with_kernel(
        rows: memoryview,
        count: int,
        base_timestamp: int,
        needs_key: bool,
        oldest_ms: int,
        newest_ms: int,
    ) -> Inspection:
        marks = np.zeros(count, dtype=np.uint8)
        result = np.zeros(2, dtype=np.int64)
        kernel.inspect_records(
            readable(rows),
            count,
            base_timestamp,
            needs_key,
            max(oldest_ms, -(2**63)),
            min(newest_ms, 2**63 - 1),
            marks,
            result,
        )
        problem = int(result[kernel.PROBLEM])
        if problem:
            return Inspection(_PROBLEMS[problem], int(result[kernel.RECORD]), ())
        bad = np.flatnonzero(marks)
        return Inspection(None, 0, list(zip(bad.tolist(), marks[bad].tolist(), strict=True)))

    # Compiled, or read from numba's cache, here: the first request must not wait for it. Bytes, a
    # view of them and one of a bytearray are three types to numba.
    empty = bytes(HEADER_BYTES)
    kernel.is_sound(empty)
    kernel.is_sound(memoryview(empty))
    kernel.is_sound(memoryview(bytearray(empty)))
    inspect_with_kernel(memoryview(b"\0"), 0, 0, False, 0, 0)
    _inspect = inspect_with_kernel
    is_sound = kernel.is_sound


def load_kernel_for(size_bytes: int) -> None:
    """Load the kernel, and wait for it, if walking so many bytes without it takes longer than that.
    Call it in a thread."""
    if size_bytes > _WORTH_A_KERNEL_BYTES and _inspect is _inspect_slowly:
        with _waiting:
            if _inspect is _inspect_slowly:
                load_kernel()


def _is_sound_slowly(records: bytes | memoryview) -> bool:
    _count_bytes(len(records))
    batch = memoryview(records)
    head = Batch(batch)
    if head.compression:
        return can_hold(head)
    inspection = _inspect_slowly(
        batch[HEADER_BYTES:],
        head.record_count,
        head.base_timestamp,
        False,
        -(2**63),
        head.max_timestamp,
    )
    return inspection.problem is None and not inspection.marks


def _inspect_slowly(
    rows: memoryview,
    count: int,
    base_timestamp: int,
    needs_key: bool,
    oldest_ms: int,
    newest_ms: int,
) -> Inspection:
    _count_bytes(len(rows))
    marks: list[tuple[int, int]] = []
    at = 0
    for delta in range(count):
        problem, at, timestamp_delta, key_size = _read_record(rows, at, delta)
        if problem:
            return Inspection(_PROBLEMS[problem], delta, ())
        timestamp_ms = _int64(base_timestamp + timestamp_delta)
        if needs_key and key_size < 0:
            marks.append((delta, NO_KEY))
        elif timestamp_ms > newest_ms or (timestamp_ms < oldest_ms and timestamp_ms != -1):
            marks.append((delta, BAD_TIME))
    if at != len(rows):
        return Inspection(_PROBLEMS[_TRAILING], count - 1, ())
    return Inspection(None, 0, marks)


def _read_record(rows: memoryview, at: int, delta: int) -> tuple[int, int, int, int]:
    """Return (problem, position behind the record, its timestamp delta, its key's size)."""
    problem = _BAD_LENGTH
    try:
        length, at = _varint(rows, at)
        if length < _MIN_RECORD_BYTES - 1 or length > len(rows) - at:
            return _BAD_LENGTH, at, 0, 0
        row = rows[: at + length]
        end = len(row)
        problem = _BAD_TIMESTAMP
        timestamp_delta, at = _varint(row, at + 1)
        problem = _BAD_OFFSET
        found, at = _varint(row, at)
        if found != delta:
            return _BAD_OFFSET, at, 0, 0
        problem = _BAD_KEY
        key_size, at = _varint(row, at)
        if not -1 <= key_size <= end - at:
            return _BAD_KEY, at, 0, 0
        problem = _BAD_VALUE
        value_size, at = _varint(row, at + max(key_size, 0))
        if not -1 <= value_size <= end - at:
            return _BAD_VALUE, at, 0, 0
        problem = _BAD_HEADERS
        headers, at = _varint(row, at + max(value_size, 0))
        # A header takes two bytes at least: a larger count is a lie, and would be a long loop.
        if not 0 <= headers <= (end - at) // 2:
            return _BAD_HEADERS, at, 0, 0
        for _ in range(headers):
            size, at = _varint(row, at)
            if not 0 <= size <= end - at:
                return _BAD_HEADERS, at, 0, 0
            size, at = _varint(row, at + size)
            if not -1 <= size <= end - at:
                return _BAD_HEADERS, at, 0, 0
            at += max(size, 0)
    except CorruptBatch:
        return problem, at, 0, 0
    return (0 if at == end else _BAD_END), at, timestamp_delta, key_size


def _varint(rows: memoryview, at: int) -> tuple[int, int]:
    """Read a varint as the kernel does, in arithmetic of 64 bits."""
    raw = 0
    for index in range(min(MAX_VARLONG_BYTES, len(rows) - at)):
        byte = rows[at + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= _MASK_64
            return (raw >> 1) ^ -(raw & 1), at + index + 1
    raise CorruptBatch(f"The records end inside the varint at byte {at}.")


def _int64(value: int) -> int:
    """Wrap as the kernel's arithmetic does."""
    value &= _MASK_64
    return value - 2**64 if value >= 2**63 else value


_Walk: TypeAlias = Callable[[memoryview, int, int, bool, int, int], Inspection]

is_sound: Callable[[bytes | memoryview], bool] = _is_sound_slowly
"""Return whether a whole batch holds the records that its head counts, none of them newer than its
max timestamp; of a compressed one, whether it can hold that many. Takes the bytes, or a flat view,
of a batch whose head is valid, as long as its head says. A variable: look it up at each call."""

_inspect: _Walk = _inspect_slowly
_loading = Lock()
_waiting = Lock()
_walked_bytes = 0


def _count_bytes(size_bytes: int) -> None:
    """Load the kernel, once and in a thread, when so much was walked that it is worth it."""
    global _walked_bytes
    _walked_bytes += size_bytes
    if _walked_bytes > _WORTH_A_KERNEL_BYTES and _loading.acquire(blocking=False):
        # Never released: one thread tries, once. No daemon: LLVM must not be cut off at the end.
        Thread(target=load_kernel, name="load-kernel").start()
