"""The Arrow columns of decoded records: their names, their types, and the buffers being filled."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.records.kernel.memory import Bytes, Int32s, Int64s

TIMESTAMP: Final = pa.timestamp("ms", tz="UTC")
HEADERS: Final = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)

BINARY_SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int16(), nullable=False),
    ]
)
"""Every column that `decode` can make, in the order it makes them.

A timestamp is Kafka's int64 of milliseconds: -1, one millisecond before 1970, means none was set.
`timestamp_type` is 0 for the producer's time and 1 for the broker's. Without a producer id, id and
epoch are -1.
"""

VIEW_SCHEMA: Final = pa.schema(
    [
        field.with_type(pa.binary_view()) if field.name in ("key", "value") else field
        for field in BINARY_SCHEMA
    ]
)
"""The same with keys and values that point into the decoded bytes. Headers stay plain."""


class BytesColumn:
    """The buffers of one binary or view column while a kernel fills them.

    `index` holds int32 offsets, or four int32 for each view. `data` has room for every byte that
    could come, which costs address space and no memory: pages that are not written are not used.
    Memory comes from Arrow's pool, which reuses its pages; fresh
    pages from the system cost more than decoding into them does.
    """

    __slots__ = ("_data", "_index", "_valid", "data", "index", "valid")

    def __init__(self, rows: int, room_bytes: int, *, views: bool = False) -> None:
        self._index = pa.allocate_buffer(16 * rows if views else 4 * (rows + 1))
        self._data = pa.allocate_buffer(room_bytes)
        self._valid = pa.allocate_buffer((rows + 7) // 8)
        self.index: Int32s = np.frombuffer(self._index, dtype=np.int32)
        self.data: Bytes = np.frombuffer(self._data, dtype=np.uint8)
        self.valid: Bytes = np.frombuffer(self._valid, dtype=np.uint8)
        self.valid.fill(0xFF)
        if not views:
            self.index[0] = 0

    def binary(self, rows: int, used_bytes: int, nulls: int, kind: pa.DataType) -> pa.Array:
        """Return the finished column, of `binary` or `string`."""
        data = self._data.slice(0, used_bytes)
        if used_bytes < self._data.size // 2:
            data = _copy_of(data)
        valid = self._valid if nulls else None
        return pa.Array.from_buffers(kind, rows, [valid, self._index, data], nulls)

    def view(self, rows: int, nulls: int, buffers: list[pa.Buffer]) -> pa.Array:
        """Return the finished column of `binary_view`, whose long values lie in `buffers`."""
        valid = self._valid if nulls else None
        return pa.Array.from_buffers(pa.binary_view(), rows, [valid, self._index, *buffers], nulls)

    def lists(self, rows: int, kind: pa.DataType, items: pa.Array) -> pa.Array:
        """Return the finished column of lists whose offsets are `index`."""
        return pa.Array.from_buffers(kind, rows, [None, self._index], 0, children=[items])


class NumberColumn:
    """The buffer of one column of fixed width while a kernel fills it."""

    __slots__ = ("_buffer", "values")

    def __init__(self, rows: int) -> None:
        self._buffer = pa.allocate_buffer(8 * rows)
        self.values: Int64s = np.frombuffer(self._buffer, dtype=np.int64)

    def array(self, rows: int, kind: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(kind, rows, [None, self._buffer], 0)


NO_BYTES_COLUMN: Final = BytesColumn(0, 0)
NO_NUMBER_COLUMN: Final = NumberColumn(0)
"""Stand in for a column that was not asked for, so that no kernel writes to it."""

# Not pa.array, which imports pandas: half a second in every process that reads, for nothing.
NO_HEADERS: Final = pa.nulls(0, HEADERS.value_type)


def repeated(values: Int64s, counts: Int64s, width: type[np.signedinteger[Any]]) -> pa.Array:
    """Build a column that has the same value for all records of a batch."""
    rows = int(counts.sum())
    kind = pa.from_numpy_dtype(width)
    buffer = pa.allocate_buffer(rows * kind.byte_width)
    column = np.frombuffer(buffer, dtype=width)
    if len(values) == 1 or (len(values) and (values == values[0]).all()):
        column.fill(values[0])
    else:
        column[:] = np.repeat(values.astype(width), counts)
    return pa.Array.from_buffers(kind, rows, [None, buffer], 0)


def _copy_of(data: pa.Buffer) -> pa.Buffer:
    """Give back the room that was not needed. Every column's room is that of all record bytes."""
    copy = pa.allocate_buffer(data.size)
    np.frombuffer(copy, dtype=np.uint8)[:] = np.frombuffer(data, dtype=np.uint8)
    return copy
