"""Avro's kernels touch nothing outside of their buffers: a byte too far ends the process.

Values end where an unreadable page begins, or begin behind one, and every buffer that is written to
ends at such a page. It runs in a process of its own, which must end well.
"""

import subprocess
import sys

SCRIPT = """
import ctypes, io, json, mmap, os, random, sys
import fastavro
import numpy as np
import pyarrow as pa
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.avro import entry_buffer, reader as reading, writer
from headrace.serde.avro.reader import AvroColumnReader
from headrace.serde.avro.writer import AvroColumnWriter

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
PAGE = mmap.PAGESIZE

def guarded(size, at_start=False):
    inner = -(-size // PAGE) * PAGE
    area = mmap.mmap(-1, inner + 2 * PAGE)
    whole = np.frombuffer(area, dtype=np.uint8)
    start = whole.ctypes.data
    for guard in (start, start + PAGE + inner):
        assert libc.mprotect(guard, PAGE, 0) == 0
    begin = PAGE if at_start else PAGE + inner - size
    return whole[begin : begin + size]

def grown(old, size):
    new = guarded(-(-size // 8) * 8)  # aligned, as the array it stands for
    new[: len(old)] = old
    return new

entry_buffer._grown = grown
writer.empty_bytes = guarded
# Room is made in small steps, so that items reach the end of it.
reading._STEP_BYTES = 40

chance = random.Random(int(sys.argv[1]))
INNER = {"type": "record", "name": "I", "fields": [
    {"name": "s", "type": "string"},
    {"name": "n", "type": ["null", "long"]},
    {"name": "more", "type": {"type": "array", "items": ["null", "int"]}},
]}
SCHEMA = {"type": "record", "name": "R", "fields": [
    {"name": "a", "type": "int"},
    {"name": "text", "type": "string"},
    {"name": "map", "type": {"type": "map", "values": "bytes"}},
    {"name": "items", "type": {"type": "array", "items": INNER}},
    {"name": "nothings", "type": {"type": "array", "items": "null"}},
    {"name": "choice", "type": ["null", "string", "double"]},
    {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 5}},
    {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    {"name": "flag", "type": "boolean"},
    {"name": "f", "type": "float"},
    {"name": "price", "type": {
        "type": "bytes", "logicalType": "decimal", "precision": 50}},
]}
PLAIN = json.loads(json.dumps(SCHEMA))
PLAIN["fields"][-1]["type"] = "bytes"
FEWER = {"type": "record", "name": "R", "fields": [
    {"name": "f", "type": "double"}, {"name": "a", "type": "double"}]}

def text():
    return "".join(chance.choice("ab\u00e4\u20ac\U0001f600") for _ in range(chance.randrange(40)))

def inner():
    return {"s": text(), "n": chance.choice([None, 1, -(2**60)]),
            "more": [chance.choice([None, 7]) for _ in range(chance.randrange(5))]}

def row():
    return {
        "a": chance.randrange(-(2**31), 2**31), "text": text(),
        "map": {text(): chance.randbytes(chance.randrange(50)) for _ in range(chance.randrange(3))},
        "items": [inner() for _ in range(chance.randrange(4))],
        "nothings": [None] * chance.randrange(3),
        "choice": chance.choice([None, text(), 1.5]), "fixed": b"12345",
        "kind": chance.choice("AB"), "flag": True, "f": 0.5,
        "price": chance.randbytes(chance.randrange(1, 20)),
    }

def damaged(value):
    changed = bytearray(value)
    for _ in range(chance.randrange(1, 4)):
        if chance.randrange(3) == 0:
            del changed[chance.randrange(len(changed) + 1):]
        elif changed:
            changed[chance.randrange(len(changed))] = chance.choice(
                [0, 1, 2, 0x20, 0x7f, 0x80, 0xc3, 0xf0, 0xff])
    return bytes(changed)

def parsed(schema):
    return parse(SchemaText(SchemaType.AVRO, json.dumps(schema)))

plain = fastavro.parse_schema(PLAIN)
readers = [AvroColumnReader(parsed(SCHEMA)), AvroColumnReader(parsed(SCHEMA), parsed(FEWER))]
back = AvroColumnWriter(parsed(SCHEMA))
good = bad = 0
for turn in range(100):
    values = []
    for _ in range(chance.randrange(1, 8)):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, plain, row())
        values.append(damaged(out.getvalue()) if chance.randrange(2) else out.getvalue())
    joined = b"".join(values)
    index = np.cumsum([0, *map(len, values)], dtype=np.int32)
    for at_start in (False, True):
        data = guarded(len(joined), at_start)
        data[:] = np.frombuffer(joined, dtype=np.uint8)
        buffers = [None, pa.py_buffer(index), pa.py_buffer(data)]
        column = pa.Array.from_buffers(pa.binary(), len(values), buffers)
        for reader in readers:
            found = reader.read(column)
            found.values.validate(full=True)
            bad += len(found.bad_rows)
            good += len(values) - len(found.bad_rows)
        rows = readers[0].read(column).values
        written = back.write(rows)
        assert not len(written.bad_rows)
        assert readers[0].read(written.values).values.equals(rows)
# As many items as there are bytes: room for them is used up to its end.
dense = AvroColumnReader(parsed({"type": "array", "items": ["null", "int"]}))
for size in range(1, 200, 9):
    value = b"\\xfe\\x03" + bytes(255) + b"\\x00"
    assert not len(dense.read(pa.array([value] * size)).bad_rows)
    cut = dense.read(pa.array([value[:-1 - size]] * 3 + [value]))
    assert cut.bad_rows.tolist() == [0, 1, 2]
assert good > 100 and bad > 100, (good, bad)
print("survived")
sys.stdout.flush()
os._exit(0)
"""


def test_no_avro_kernel_leaves_its_buffers() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, "1"], capture_output=True, text=True, timeout=120
    )

    assert (run.stdout, run.returncode) == ("survived\n", 0), run.stderr
