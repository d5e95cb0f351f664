"""Small Arrow arrays from and to plain buffers.

Not `pa.array` and not `numpy.asarray`: they import pandas, half a second in every process.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.model.error import InvalidArgument
from headrace.records.kernel.memory import Bytes, Int64s


def byte_array(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Return a column of binary or string."""
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum([len(each) for each in values], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers, 0)


def repeated(one: pa.Array, count: int) -> pa.Array:
    """Return an array that has the only entry of another this many times."""
    zeros = pa.py_buffer(np.zeros(count, dtype=np.int32))
    return one.take(pa.Array.from_buffers(pa.int32(), count, [None, zeros], 0))


def check_offsets(offsets: Int64s, rows: int, size: int) -> None:
    """Check the offsets of a column whose strings lie in `size` bytes: kernels trust them.

    Raises:
        InvalidArgument: one is out of order, or outside of the bytes.
    """
    rising = len(offsets) == rows + 1 and bool((offsets[1:] >= offsets[:-1]).all())
    if not rising or int(offsets[0]) < 0 or int(offsets[-1]) > size:
        raise InvalidArgument(
            "the Arrow column has offsets outside of its bytes: it is damaged, see its validate()"
        )


def valid_states(array: pa.Array) -> Bytes:
    """Return one byte for each entry: 0 for a null, else 1."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.uint8)
    mask = array.buffers()[0]
    if mask is None:
        return np.ones(len(array), dtype=np.uint8)
    bits = np.frombuffer(mask, dtype=np.uint8)
    past = array.offset + len(array)
    return np.unpackbits(bits, count=past, bitorder="little")[array.offset :].copy()
