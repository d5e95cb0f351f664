"""Where each value of a binary column begins and ends."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.error import InvalidArgument
from headrace.records.kernel.memory import Bytes, Int64s, readable
from headrace.serde.avro.plain_array import check_offsets, valid_states

_LARGE = (pa.large_binary(), pa.large_string())
_SMALL = (pa.binary(), pa.string())
_MOST_BYTES = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class BinaryInput:
    """The bytes of all values, and the places of each in them; a null starts at -1."""

    data: Bytes
    starts: Int64s
    ends: Int64s
    has_nulls: bool
    _offsets: Int64s

    @classmethod
    def of(cls, values: pa.Array, skip_bytes: int | npt.NDArray[np.integer]) -> "BinaryInput":
        """Look at a column without copying its bytes.

        Raises:
            InvalidArgument: it is no column of bytes, too large, or `skip_bytes` does not fit it.
        """
        if values.type not in (*_LARGE, *_SMALL):
            raise InvalidArgument(
                f"Avro values are a column of binary or large_binary, not {values.type}"
            )
        width: type[np.signedinteger] = np.int64 if values.type in _LARGE else np.int32
        rows = len(values)
        _, index, content = values.buffers()
        if rows == 0 or index is None:
            offsets = np.zeros(rows + 1, dtype=np.int64)
        else:
            every = np.frombuffer(index, dtype=width)
            offsets = every[values.offset : values.offset + rows + 1].astype(np.int64)
        data = np.zeros(0, dtype=np.uint8) if content is None else readable(content)
        check_offsets(offsets, rows, len(data))
        # From the first value on: with large_binary only so are places below 2 GiB.
        data = readable(data[offsets[0] : offsets[-1]])
        if len(data) > _MOST_BYTES:
            raise InvalidArgument(
                f"{len(data)} bytes of Avro values are too many for one column: read at most 2 GiB"
            )
        offsets -= offsets[0]
        starts = offsets[:-1] + _skipped(skip_bytes, rows)
        if values.null_count:
            starts[valid_states(values) == 0] = -1
        return cls(data, starts, offsets[1:].copy(), values.null_count > 0, offsets)

    def row_within(self, first: int, size: int) -> int:
        """Return the row past those that have at most `size` bytes from `first` on, or one more."""
        past = int(np.searchsorted(self._offsets, self._offsets[first] + size, side="right")) - 1
        return min(max(past, first + 1), len(self.starts))

    def size_of(self, first: int, past: int) -> int:
        """Return the bytes of some rows."""
        return int(self._offsets[past] - self._offsets[first])


def _skipped(skip_bytes: int | npt.NDArray[np.integer], rows: int) -> Int64s:
    skipped: Int64s = np.asarray(skip_bytes).astype(np.int64)
    if skipped.shape not in ((), (rows,)) or bool((skipped < 0).any()):
        raise InvalidArgument("skip_bytes must be a number from 0 on, or one for each value")
    # More than any value has is as good as more still, and a sum with it is in range.
    return np.minimum(skipped, _MOST_BYTES)
