"""Record codec: our columns against aiokafka's C reader and builder, on the same bytes.

Values are 100 random bytes, keys are null, batches hold about a megabyte, nothing is compressed
unless the row says so. Rates are by the CPU time of one thread, which a busy neighbour distorts
less than the clock. Both sides check every CRC. aiokafka's side touches offset, key and value of
each record, the least a consumer does; ours makes all eight columns unless the row says so.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from bench.row import Row, alternate, median
from headrace.records.batch import Batch
from headrace.records.decode import decode
from headrace.records.encode import encode

RECORDS = 500_000
VALUE_BYTES = 100
ROUNDS = 9
NOW_MS = 1_700_000_000_000


def run() -> list[Row]:
    columns = records(RECORDS)
    plain = encode(columns).data
    values = columns["value"].to_pylist()
    return [
        versus("decode, binary columns", lambda: decode(plain), lambda: read(plain), 3.0),
        versus(
            "decode, view columns", lambda: decode(plain, layout="view"), lambda: read(plain), 8.0
        ),
        versus(
            "decode, view columns, only offset, key and value",
            lambda: decode(plain, layout="view", columns=["offset", "key", "value"]),
            lambda: read(plain),
            8.0,
        ),
        *(compressed(codec, columns) for codec in ("lz4", "zstd")),
        versus("encode", lambda: encode(columns), lambda: build(values), 5.0),
        floor("decode, binary columns, rate", lambda: decode(plain), 10.0),
        head(),
        first_decode(),
    ]


def records(count: int) -> pa.RecordBatch:
    data = pa.py_buffer(os.urandom(count * VALUE_BYTES))
    index = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * VALUE_BYTES)
    times = pa.array(np.arange(NOW_MS, NOW_MS + count)).view(pa.timestamp("ms", tz="UTC"))
    value = pa.Array.from_buffers(pa.binary(), count, [None, index, data])
    return pa.record_batch({"timestamp": times, "value": value})


def read(data: bytes) -> int:
    """aiokafka's reader, as its fetcher uses it."""
    batches = MemoryRecords(data)
    total = 0
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise ValueError("aiokafka finds a CRC wrong")
        for record in batch:
            if record.offset < 0 or record.key is not None or record.value is None:
                raise ValueError("aiokafka reads something else")
            total += 1
    return total


def build(values: list[bytes]) -> int:
    """aiokafka's builder, in batches of a megabyte, as its producer uses it."""
    total = 0
    builder: Any = None
    count = 0
    for number, value in enumerate(values):
        if builder is None:
            builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1024 * 1024)
            count = 0
        if builder.append(count, NOW_MS + number, None, value, []) is None:
            total += len(builder.build())
            builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1024 * 1024)
            builder.append(0, NOW_MS + number, None, value, [])
            count = 0
        count += 1
    return total + len(builder.build())


def rate(call: Callable[[], object]) -> Callable[[], float]:
    """Millions of records a second of one core."""

    def measure() -> float:
        begin = time.process_time()
        call()
        return RECORDS / (time.process_time() - begin) / 1e6

    return measure


def versus(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], bar: float | None
) -> Row:
    ours(), theirs()
    our_rounds, their_rounds = alternate(rate(ours), rate(theirs), ROUNDS)
    mine, other = median(our_rounds), median(their_rounds)
    return Row(
        name=name,
        ours=mine,
        theirs=other,
        unit="M records/s",
        spread=(max(our_rounds) - min(our_rounds)) / mine,
        bar="" if bar is None else f"≥ {bar:g}×",
        reached=None if bar is None else mine / other >= bar,
    )


def floor(name: str, call: Callable[[], object], bar: float) -> Row:
    rounds = [rate(call)() for _ in range(ROUNDS)]
    return Row(
        name=name,
        ours=median(rounds),
        unit="M records/s",
        spread=(max(rounds) - min(rounds)) / median(rounds),
        bar=f"≥ {bar:g} M/s",
        reached=median(rounds) >= bar,
    )


def compressed(codec: str, columns: pa.RecordBatch) -> Row:
    data = encode(columns, codec=codec).data
    return versus(
        f"decode, binary columns, {codec}", lambda: decode(data), lambda: read(data), None
    )


def head() -> Row:
    """What the broker does for each batch: view and validate the head of a small one."""
    data = memoryview(encode(records(1)).data)
    loops = 20_000

    def measure() -> float:
        begin = time.perf_counter()
        for _ in range(loops):
            Batch(data).validate(from_client=True)
        return (time.perf_counter() - begin) / loops * 1e6

    rounds = [measure() for _ in range(ROUNDS)]
    return Row(
        name="view and validate a batch of one record",
        ours=median(rounds),
        unit="µs",
        spread=(max(rounds) - min(rounds)) / median(rounds),
        bar="≤ 2 µs",
        reached=median(rounds) <= 2,
    )


def first_decode() -> Row:
    """A new process, from the import to the first decoded record, with the kernels' cache warm."""
    script = """
import time
begin = time.perf_counter()
import pyarrow
from headrace.records.decode import decode
decode(bytes.fromhex(%r))
print(time.perf_counter() - begin)
"""
    program = script % encode(records(1)).data.hex()
    rounds = [
        float(
            subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
        )
        for _ in range(3)
    ]
    return Row(name="import and first decode, warm cache", ours=median(rounds), unit="s")
