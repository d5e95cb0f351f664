"""Arrays of Avro events: the kernels read and write what plain Python does, and nothing else."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ingest.error import ProtocolError
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.format import event_array
from headrace.ingest.format.avro_event import AvroInput, encode_event, encode_long

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
EVENTS = st.lists(
    st.builds(Event, st.dictionaries(TEXTS, TEXTS, max_size=3), st.binary(max_size=200)),
    max_size=20,
)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Iterator[None]:
    before = event_array._kernel
    event_array.load_kernel()
    yield
    event_array._kernel = before


def array_of(events: list[Event]) -> bytes:
    written = b"".join(encode_event(event.headers, event.body) for event in events)
    return (encode_long(len(events)) + written if events else b"") + b"\x00"


def read_plainly(data: bytes) -> tuple[EventBatch | None, int]:
    source = AvroInput(data)
    try:
        headers, bodies = source.events()
    except ProtocolError:
        return None, 0
    return EventBatch(bodies, headers), source.position


def read_by_kernel(data: bytes) -> tuple[EventBatch | None, int]:
    source = AvroInput(data)
    try:
        return event_array.read_events(source), source.position
    except ProtocolError:
        return None, 0


@settings(deadline=None)
@given(EVENTS, st.booleans())
def test_events_come_back(events: list[Event], shared: bool) -> None:
    if shared:
        events = [event._replace(headers=events[0].headers) for event in events]
    data = array_of(events)
    batch, end = read_by_kernel(data + b"rest")
    assert batch is not None
    assert list(batch) == events
    assert end == len(data)
    assert (batch.packed is not None) == bool(events)
    assert b"".join(event_array.write_events(batch)) == data
    assert b"".join(event_array.write_events(EventBatch.of(events))) == data


@settings(deadline=None)
@given(EVENTS, EVENTS)
def test_an_array_in_several_blocks_is_read_too(first: list[Event], second: list[Event]) -> None:
    data = array_of(first)[:-1] + array_of(second)
    batch, end = read_by_kernel(data)
    assert batch is not None
    assert list(batch) == [*first, *second]
    assert end == len(data)


@settings(deadline=None, max_examples=300)
@given(EVENTS, st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=9))))
def test_bytes_that_were_changed_are_read_or_refused_as_in_plain_python(
    events: list[Event], changes: list[tuple[int, bytes]]
) -> None:
    data = array_of(events)
    for at, octets in changes:
        data = data[:at] + octets + data[at + len(octets) :]
    assert read_by_kernel(data) == read_plainly(data)


SCRIPT = """
import ctypes, mmap, random
import numpy as np
from headrace.ingest.format.avro_event import MAX_HEADERS, encode_event
from headrace.ingest.format.kernel import avro_event as kernel

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
PAGE = mmap.PAGESIZE

def guarded(content):
    inner = -(-len(content) // PAGE) * PAGE
    whole = np.frombuffer(mmap.mmap(-1, inner + 2 * PAGE), dtype=np.uint8)
    for guard in (whole.ctypes.data, whole.ctypes.data + PAGE + inner):
        assert libc.mprotect(guard, PAGE, 0) == 0
    area = whole[PAGE + inner - len(content) : PAGE + inner]
    area[:] = np.frombuffer(content, dtype=np.uint8)
    return area

def readable(content):
    area = guarded(content)
    area.flags.writeable = False
    return area

chance = random.Random(7)
for _ in range(2000):
    count = chance.randrange(1, 5)
    bodies = [chance.randbytes(chance.choice([0, 1, 31, 63, 64, 600])) for _ in range(count)]
    headers = {"k": "v" * chance.randrange(70)} if chance.random() < 0.5 else {}
    content = b"".join(encode_event(headers, body) for body in bodies)
    if chance.random() < 0.3:
        content = content[: chance.randrange(1, len(content) + 1)]
    if chance.random() < 0.3:
        at = chance.randrange(len(content))
        content = content[:at] + chance.randbytes(1) + content[at + 1 :]
    data = readable(content)
    table = np.empty((count, kernel.COLUMNS), dtype=np.int64)
    if kernel.find_events(data, 0, MAX_HEADERS, table) == kernel.DECLINED:
        continue
    kernel.same_headers(data, table)
    sizes = table[:, kernel.BODY_END] - table[:, kernel.BODY_START]
    out = guarded(bytes(int(sizes.sum())))
    kernel.gather_bodies(data, table, out)
    packed = readable(bytes(out))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    head = readable(b"h" * 5)
    room = guarded(bytes(len(packed) + count * (5 + kernel.LENGTH_BYTES)))
    assert kernel.write_events(packed, offsets, head, room) <= len(room)
print("done")
"""


def test_the_kernels_stay_inside_their_buffers() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
