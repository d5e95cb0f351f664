"""Which schema each value of a column names, found for the whole column at once."""

from dataclasses import dataclass
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.serde.wire_format import GUID_HEAD_BYTES, GUID_MAGIC, ID_HEAD_BYTES, ID_MAGIC

NO_SCHEMA = -1
"""The key of a value that names no schema, or is null."""


@dataclass(frozen=True, slots=True)
class SchemaHeads:
    """The schemas of a column.

    Attributes:
        keys: per row a schema's id, `NO_SCHEMA`, or -2 - n for the nth GUID.
    """

    keys: npt.NDArray[np.int64]
    guids: tuple[str, ...] = ()

    def guid(self, key: int) -> str | None:
        return self.guids[-2 - key] if key < NO_SCHEMA else None


def schema_heads(values: pa.Array) -> SchemaHeads:
    """Return which schemas the values of a binary column name.

    >>> schema_heads(pa.array([bytes([0, 0, 0, 1, 2, 65]), b"x", None])).keys.tolist()
    [258, -1, -1]
    """
    rows = len(values)
    keys = np.full(rows, NO_SCHEMA, np.int64)
    if rows == 0:
        return SchemaHeads(keys)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + rows + 1]
    if data is None or ends[-1] == 0:
        return SchemaHeads(keys)
    octets = np.frombuffer(data, np.uint8)
    starts = ends[:-1].astype(np.int64)
    lengths = np.diff(ends)
    if values.null_count:
        lengths = np.where(values.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    headed = np.flatnonzero(lengths >= ID_HEAD_BYTES)
    magic = octets[starts[headed]]
    plain = headed[magic == ID_MAGIC]
    at = starts[plain]
    found = np.zeros(len(plain), np.int64)
    for place in range(1, ID_HEAD_BYTES):
        found = (found << 8) | octets[at + place]
    keys[plain] = found
    guids: dict[str, int] = {}
    rare = headed[(magic == GUID_MAGIC) & (lengths[headed] >= GUID_HEAD_BYTES)]
    for row in rare.tolist():
        start = int(starts[row]) + 1
        guid = str(UUID(bytes=octets[start : start + GUID_HEAD_BYTES - 1].tobytes()))
        keys[row] = -2 - guids.setdefault(guid, len(guids))
    return SchemaHeads(keys, tuple(guids))


def without_heads(values: pa.Array, head_bytes: int) -> pa.Array:
    """Return the values of a binary column without their heads.

    Arrow's `binary_slice` fails for columns whose values are shorter than their heads.

    Args:
        values: none is null or shorter than a head.

    >>> without_heads(pa.array([b"\\0abcdX", b"\\0abcd", b"\\0abcdYZ"]), 5).to_pylist()
    [b'X', b'', b'YZ']
    """
    if head_bytes == 0:
        return values
    rows = len(values)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + rows + 1]
    first, last = int(ends[0]), int(ends[-1])
    octets = np.frombuffer(data, np.uint8)[first:last]
    kept = np.ones(last - first, np.bool_)
    starts = ends[:-1].astype(np.int64) - first
    for place in range(head_bytes):
        kept[starts + place] = False
    shorter = (ends - first - head_bytes * np.arange(rows + 1)).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(shorter), pa.py_buffer(octets[kept])]
    )
