"""Kernels touch nothing outside their buffers: a byte too far is a page that kills the process.

The input ends where an unreadable page begins, so that a read behind it is a segmentation fault. It
runs in a process of its own, which must end well.
"""

import subprocess
import sys

SCRIPT = """
import ctypes, mmap, random, struct, sys
import pyarrow as pa
from crc32c import crc32c
from headrace.model.error import HeadraceError
from headrace.records.decode import decode
from headrace.records.encode import encode

libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
area = mmap.mmap(-1, 5 * PAGE)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
for page in (0, 4):
    assert libc.mprotect(ctypes.c_void_p(start + page * PAGE), PAGE, 0) == 0
view = memoryview(area)

def at_the_end(data):
    room = view[4 * PAGE - len(data) : 4 * PAGE]
    room[:] = data
    return room

def at_the_start(data):
    room = view[PAGE : PAGE + len(data)]
    room[:] = data
    return room

chance = random.Random(int(sys.argv[1]))
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

def some_bytes():
    return chance.choice([None, b"", chance.randbytes(chance.randrange(1, 70))])

for turn in range(400):
    rows = chance.randrange(1, 12)
    columns = pa.record_batch({
        "key": pa.array([some_bytes() for _ in range(rows)], pa.binary()),
        "value": pa.array([some_bytes() for _ in range(rows)], pa.binary()),
        "headers": pa.array([[{"key": "k", "value": some_bytes()}] * chance.randrange(3)
                             for _ in range(rows)], HEADERS),
    })
    sound = encode(columns, timestamp_ms=turn).data
    damaged = bytearray(sound)
    if turn % 2:
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(61, len(damaged))] = chance.choice([0, 1, 0x7f, 0x80, 0xff])
        struct.pack_into(">I", damaged, 17, crc32c(bytes(damaged[21:])))
    for place in (at_the_end, at_the_start):
        for layout in ("binary", "view"):
            try:
                decode(place(damaged), layout=layout, columns=["offset", "key", "value", "headers"])
            except HeadraceError:
                assert turn % 2
    # The last value of a column that is encoded lies at the very end of its buffer.
    value = chance.randbytes(chance.randrange(1, 100))
    index = pa.py_buffer(struct.pack("<qq", 0, len(value)))
    column = pa.Array.from_buffers(
        pa.large_binary(), 1, [None, index, pa.py_buffer(at_the_end(value))]
    )
    one = encode(pa.record_batch({"value": column}), timestamp_ms=0)
    assert decode(one.data).columns["value"].to_pylist() == [value]
print("survived")
sys.stdout.flush()
import os
os._exit(0)
"""


def test_no_kernel_reads_past_its_buffers():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, "1"], capture_output=True, text=True, timeout=120
    )

    assert (run.stdout, run.returncode) == ("survived\n", 0), run.stderr
