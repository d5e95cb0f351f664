"""Finding, copying and writing the events of one Avro array.

An event is a map of headers and a body: see `headrace.ingest.format.avro_event`.
"""

from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    int64,
    load8,
    put,
    short_kernel,
    store8,
)
from headrace.records.kernel.varint import BAD, read_varint, write_varint

HEADERS_START, HEADERS_END, BODY_START, BODY_END, COLUMNS = range(5)
"""The columns of a table of events: positions in the data."""

DECLINED = -1
"""What `find_events` answers for bytes that plain Python has to read, or to refuse."""

LENGTH_BYTES = 10
"""The room for the length of a body."""


@short_kernel
def find_events(data: Bytes, start: int, most_headers: int, table: Int64s) -> int:
    """Find as many events as the table has rows, one after the other from `start` on.

    Returns:
        The position behind them; DECLINED if bytes are missing, a map has blocks with a size in
        front, or an event has more than `most_headers` headers.
    """
    base = address(data)
    end = base + data.shape[0]
    at = base + start
    for row in range(table.shape[0]):
        table[row, HEADERS_START] = at - base
        left = int64(most_headers)
        while True:
            count, at = read_varint(at, end)
            if at == BAD or count < 0 or count > left:
                return DECLINED
            if count == 0:
                break
            left -= count
            for _ in range(2 * count):  # a name and a value each
                size, at = read_varint(at, end)
                if at == BAD or size < 0 or size > end - at:
                    return DECLINED
                at += size
        table[row, HEADERS_END] = at - base
        size, at = read_varint(at, end)
        if at == BAD or size < 0 or size > end - at:
            return DECLINED
        table[row, BODY_START] = at - base
        at += size
        table[row, BODY_END] = at - base
    return at - base


@short_kernel
def same_headers(data: Bytes, table: Int64s) -> bool:
    """Return whether the headers of all events are the same bytes."""
    base = address(data)
    first = base + table[0, HEADERS_START]
    size = table[0, HEADERS_END] - table[0, HEADERS_START]
    for row in range(1, table.shape[0]):
        if table[row, HEADERS_END] - table[row, HEADERS_START] != size:
            return False
        at = base + table[row, HEADERS_START]
        for index in range(size):
            if load8(at + index) != load8(first + index):
                return False
    return True


@short_kernel
def gather_bodies(data: Bytes, table: Int64s, to: Bytes) -> None:
    """Copy each body, one behind the other, to `to`, which has room for exactly all of them."""
    base = address(data)
    data_end = base + data.shape[0]
    out = address(to)
    out_end = out + to.shape[0]
    for row in range(table.shape[0]):
        size = table[row, BODY_END] - table[row, BODY_START]
        put(out, out_end, base + table[row, BODY_START], data_end, size)
        out += size


@short_kernel
def write_events(data: Bytes, offsets: Int64s, headers: Bytes, to: Bytes) -> int:
    """Write an event for each body in `data`, all with the same encoded headers.

    `to` has room for the bodies and, per event, the headers and LENGTH_BYTES. Returns how many
    bytes were written.
    """
    base = address(data)
    data_end = base + data.shape[0]
    head = address(headers)
    head_bytes = int64(headers.shape[0])
    start = address(to)
    out_end = start + to.shape[0]
    out = start
    for row in range(offsets.shape[0] - 1):
        for index in range(head_bytes):
            store8(out + index, int64(load8(head + index)))
        size = offsets[row + 1] - offsets[row]
        out = write_varint(out + head_bytes, size)
        put(out, out_end, base + offsets[row], data_end, size)
        out += size
    return out - start
