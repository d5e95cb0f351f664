"""What the fast path takes on of a compressed batch, and what it leaves to a thread."""

import random
import struct
import threading
from collections.abc import Iterator

import cramjam
import pytest

from headrace.records import framing
from headrace.records.batch import Batch, Buffer, build_head
from headrace.records.compression import Codec, compress
from headrace.records.varint import write_varint
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
XERIAL_HEAD = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@pytest.fixture(params=[False, True], ids=["plain Python", "kernel"])
def kernel(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the kernel is loaded. Nothing else loads it meanwhile."""
    ours = framing._loading.acquire(blocking=False)
    for thread in threading.enumerate():
        if thread.name == "load-kernel":
            thread.join()
    before = framing.is_sound, framing._inspect
    if request.param:
        framing.load_kernel()
    else:
        framing.is_sound, framing._inspect = framing._is_sound_slowly, framing._inspect_slowly
    yield request.param
    framing.is_sound, framing._inspect = before
    if ours:
        framing._loading.release()


def packed(codec: Codec, records: Buffer, count: int) -> memoryview:
    head = build_head(
        records,
        base_offset=0,
        leader_epoch=-1,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=SAMPLE_TIME_MS,
        max_timestamp=SAMPLE_TIME_MS,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return memoryview(head + bytes(records))


def rows_of(*values: bytes) -> bytes:
    return bytes(Batch(sample_batch(*values)).records)


def xerial(rows: bytes, block_bytes: int) -> bytes:
    blocks = (
        bytes(cramjam.snappy.compress_raw(rows[at : at + block_bytes]))
        for at in range(0, len(rows), block_bytes)
    )
    return XERIAL_HEAD + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


@pytest.mark.parametrize("codec", CODECS)
def test_a_small_batch_is_looked_at_at_once(codec: Codec, kernel: bool) -> None:
    rows = rows_of(*(b"%d" % each * 20 for each in range(20)))

    assert framing.inflates(packed(codec, compress(codec, rows), 20))
    assert not framing.inflates(packed(codec, compress(codec, rows), 19))


@pytest.mark.parametrize("kernel", [True], indirect=True)
@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_producers_send_by_default_is_looked_at_at_once(codec: Codec, kernel: bool) -> None:
    rows = rows_of(*(b'{"order": %d, "state": "paid"}' % (each * 7919) for each in range(1500)))

    assert framing.inflates(packed(codec, compress(codec, rows), 1500))


@pytest.mark.parametrize("kernel", [True], indirect=True)
def test_blocks_of_1_kib_as_older_java_producers_write_are_few(kernel: bool) -> None:
    rows = rows_of(*(b"order %d" % (each * 7919) for each in range(2000)))

    assert framing.inflates(packed(Codec.SNAPPY, xerial(rows, 1024), 2000))


def test_much_gzip_is_left_to_a_thread(kernel: bool) -> None:
    """A block of twelve bytes can have tables of its own: 25 KB of them take 13 ms."""
    noise = random.Random(1).randbytes(1500)
    assert framing.inflates(packed(Codec.GZIP, compress(Codec.GZIP, rows_of(noise)), 1))

    noise = random.Random(1).randbytes(5000)
    assert not framing.inflates(packed(Codec.GZIP, compress(Codec.GZIP, rows_of(noise)), 1))


def test_many_snappy_blocks_are_left_to_a_thread(kernel: bool) -> None:
    rows = rows_of(b"x" * 200)

    assert not framing.inflates(packed(Codec.SNAPPY, xerial(rows, 1), 1))
    assert framing.inflates(packed(Codec.SNAPPY, xerial(rows, 10), 1))


def test_torn_snappy_blocks_do_not_inflate(kernel: bool) -> None:
    whole = xerial(rows_of(b"x" * 200), 100)
    for size in range(len(XERIAL_HEAD) - 1, len(whole)):
        assert not framing.inflates(packed(Codec.SNAPPY, whole[:size], 1))
    for length in (-1, 0, -(2**31), 2**31 - 1):
        torn = XERIAL_HEAD + struct.pack(">i", length) + whole[-20:]
        assert not framing.inflates(packed(Codec.SNAPPY, torn, 1))


def test_many_records_wait_for_the_kernel_in_a_thread(kernel: bool) -> None:
    """30,000 records take plain Python a fifth of a second."""
    batch = packed(Codec.ZSTD, compress(Codec.ZSTD, rows_of(*[b""] * 25_000), 19), 25_000)
    assert len(batch) < 32 * 1024

    assert framing.inflates(batch) is kernel


def test_many_headers_wait_for_the_kernel_in_a_thread(kernel: bool) -> None:
    body = b"\0\0\0\x01\x01" + write_varint(50_000) + b"\0\x01" * 50_000
    rows = write_varint(len(body)) + body

    assert framing.inflates(packed(Codec.LZ4, compress(Codec.LZ4, rows), 1)) is kernel
