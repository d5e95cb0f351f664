"""An array of Avro events as one batch: how agents send events to each other.

Plain Python reads and writes event by event. When an agent has read or written enough this way, a
thread loads kernels, which handle all events of a call at once.

Rule 1: the kernels decline what is unusual or invalid; plain Python then reads it, or refuses it.
"""

from threading import Lock, Thread
from typing import Any

import numpy as np

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.format.avro_event import (
    MAX_HEADERS,
    AvroInput,
    HeadersEncoder,
    encode_headers,
    encode_long,
)
from headrace.ingest.packed_bodies import PackedBodies

# As much takes plain Python some milliseconds; loading the kernels takes most of a second.
_WORTH_A_KERNEL_BYTES = 1 << 20
# The shortest event is an empty map and an empty body.
_SHORTEST_EVENT_BYTES = 2

_kernel: Any = None
_loading = Lock()
_walked_bytes = 0


def read_events(source: AvroInput) -> EventBatch:
    """Read an array of events.

    Raises:
        ProtocolError: the bytes are no such array.
    """
    _count_bytes(source.left)
    if _kernel is not None:
        start = source.position
        batch = _read_packed(source)
        if batch is not None:
            return batch
        source.position = start
    headers, bodies = source.events()
    return EventBatch(bodies, headers)


def write_events(batch: EventBatch) -> list[bytes | memoryview]:
    """Return an array of events, in parts that follow each other."""
    _count_bytes(batch.body_bytes)
    if not len(batch):
        return [b"\x00"]
    count = encode_long(len(batch))
    shared = batch.same_headers
    if _kernel is not None and shared is not None:
        packed = batch.packed or PackedBodies.of(batch.bodies)
        return [count, _written(packed, encode_headers(shared)), b"\x00"]
    encoder = HeadersEncoder()
    parts: list[bytes | memoryview] = [count]
    for headers, body in zip(batch.headers, batch.bodies, strict=True):
        parts += (encoder.encode(headers), encode_long(len(body)), body)
    parts.append(b"\x00")
    return parts


def _read_packed(source: AvroInput) -> EventBatch | None:
    """Read an array of one block; None if it is another one."""
    count = source.count()
    if not count or count > source.left // _SHORTEST_EVENT_BYTES:
        return None
    data = _readable(source.data)
    table = np.empty((count, _kernel.COLUMNS), dtype=np.int64)
    position = int(_kernel.find_events(data, source.position, MAX_HEADERS, table))
    if position == _kernel.DECLINED:
        return None
    source.position = position
    if source.count():
        return None
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(table[:, _kernel.BODY_END] - table[:, _kernel.BODY_START], out=offsets[1:])
    bodies = np.empty(int(offsets[-1]), dtype=np.uint8)
    _kernel.gather_bodies(data, table, bodies)
    headers: Headers | list[Headers]
    if _kernel.same_headers(data, table):
        headers = AvroInput(source.data, int(table[0, _kernel.HEADERS_START])).headers()
    else:
        headers = _headers_of(source.data, table[:, : _kernel.HEADERS_END + 1].tolist())
    return EventBatch.of_packed(PackedBodies(bodies.tobytes(), offsets), headers)


def _headers_of(data: bytes, spans: list[list[int]]) -> list[Headers]:
    """Decode headers, equal ones once."""
    known: dict[bytes, Headers] = {}
    found: list[Headers] = []
    for start, end in spans:
        encoded = data[start:end]
        headers = known.get(encoded)
        if headers is None:
            headers = known[encoded] = AvroInput(encoded).headers()
        found.append(headers)
    return found


def _written(packed: PackedBodies, headers: bytes) -> memoryview:
    room = packed.size_bytes + len(packed) * (len(headers) + _kernel.LENGTH_BYTES)
    out = np.empty(room, dtype=np.uint8)
    data, head = _readable(packed.data), _readable(headers)
    size = int(_kernel.write_events(data, packed.offsets, head, out))
    return out.data[:size]


def _readable(data: bytes) -> Any:
    octets = np.frombuffer(data, dtype=np.uint8)
    octets.flags.writeable = False
    return octets


def load_kernel() -> None:
    """Use kernels from now on. Takes most of a second: call it in a thread."""
    global _kernel
    from headrace.ingest.format.kernel import avro_event as kernel

    # Compiled, or read from numba's cache, here: no call must wait for it.
    data, out = _readable(b"\x00\x00"), np.empty(1, dtype=np.uint8)
    table = np.empty((1, kernel.COLUMNS), dtype=np.int64)
    kernel.find_events(data, 0, MAX_HEADERS, table)
    kernel.same_headers(data, table)
    kernel.gather_bodies(data, table, out[:0])
    kernel.write_events(data, np.zeros(1, dtype=np.int64), data, out)
    _kernel = kernel


def _count_bytes(size_bytes: int) -> None:
    """Load the kernels, once and in a thread, when so much was walked that it is worth it."""
    global _walked_bytes
    if _kernel is not None:
        return
    _walked_bytes += size_bytes
    if _walked_bytes > _WORTH_A_KERNEL_BYTES and _loading.acquire(blocking=False):
        # Never released: one thread tries, once. No daemon: LLVM must not be cut off at the end.
        Thread(target=load_kernel, name="load-kernel").start()
