"""Whatever a producer put under a true CRC: compaction reports it, and touches no other memory.

The bytes are laid right before a page that must not be touched, so that reading one byte too far
ends the process instead of going unnoticed.
"""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.compaction.batch_filter import BatchFilter
from headrace.log.compaction.inflater import Inflater
from headrace.log.compaction.offset_map import OffsetMap
from headrace.log.compaction.segment_chunk import SegmentChunk
from headrace.model.error import UncleanableLog
from headrace.records.batch import build_head
from headrace.records.kernel import batch_table
from headrace.records.kernel.memory import Bytes
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch

_PROT_NONE, _PROT_READ, _PROT_WRITE = 0, 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@contextmanager
def guarded(data: bytes) -> Iterator[Bytes]:
    """The bytes as an array that ends where a forbidden page begins."""
    page = mmap.PAGESIZE
    size = -(-len(data) // page) * page
    memory = mmap.mmap(-1, size + page)
    whole = np.frombuffer(memory, dtype=np.uint8)
    start = whole.ctypes.data
    assert _libc.mprotect(start + size, page, _PROT_NONE) == 0
    array = whole[size - len(data) : size]
    array[:] = np.frombuffer(data, dtype=np.uint8)
    array.flags.writeable = False
    try:
        yield array
    finally:
        assert _libc.mprotect(start + size, page, _PROT_READ | _PROT_WRITE) == 0


def compact_bytes(data: bytes) -> None:
    """Both passes over `data`, the way a round makes them."""
    with guarded(data) as array:
        table = np.empty((len(data) // 61 + 1, batch_table.COLUMNS), dtype=np.int64)
        rows, used = batch_table.scan(array, len(array), table)
        if rows <= 0:
            return
        file = CrashDisk().open(Path("/0.log"), create=True)
        chunk = SegmentChunk(file, 0, array[:used], table[:rows])
        batch_table.first_damaged(array, table, rows)
        chunk.batches[:, batch_table.PLAN] = batch_table.PLAN_FILTER
        offset_map = OffsetMap(1 << 12)
        offset_map.reset(100)
        with suppress(UncleanableLog):
            for body, first, last in chunk.bodies(Inflater(1 << 16)):
                offset_map.fill(body, chunk.batches, first, last, 0)
            for plan in (batch_table.PLAN_FILTER, batch_table.PLAN_STAMP):
                chunk.batches[:, batch_table.PLAN] = plan
                BatchFilter(
                    offset_map,
                    end_offset=2**62,
                    now_ms=0,
                    delete_retention_ms=2**62,
                    inflater=Inflater(1 << 16),
                ).apply(chunk)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_records_of_random_bytes(body: bytes, count: int, delta: int) -> None:
    for few in (count, count % 9):
        compact_bytes(build_head(body, last_offset_delta=delta, record_count=few) + body)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_sound_records_with_changed_bytes(seed: int, changes: int) -> None:
    rng = Random(seed)
    records = [
        KeyedRecord(rng.choice([None, b"k", b"key" * 9]), rng.choice([None, b"", b"v" * 70]))
        for _ in range(rng.randrange(1, 8))
    ]
    data = bytearray(keyed_batch(records))
    for _ in range(changes):
        data[rng.randrange(61, len(data))] = rng.randrange(256)

    compact_bytes(bytes(data))


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.integers(0, 2**32))
def test_random_bytes_and_cut_off_batches(noise: bytes, seed: int) -> None:
    rng = Random(seed)
    sound = keyed_batch([KeyedRecord(b"k", b"v"), KeyedRecord(b"k", None)])

    compact_bytes((sound + noise)[: rng.randrange(1, len(sound) + len(noise) + 1)])
