"""Arrow columns as a user hands them in, brought to the one form the writing kernel takes."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.error import InvalidArgument
from headrace.records.column import BINARY_SCHEMA
from headrace.records.kernel.memory import Bytes, Int64s, read_only, readable

_NO_BYTES: Final = readable(b"")
_NO_INDEX: Final[Int64s] = read_only(np.empty(0, dtype=np.int64))
_HEADER_LISTS: Final = pa.large_list(
    pa.struct([pa.field("key", pa.large_binary()), pa.field("value", pa.large_binary())])
)


@dataclass(frozen=True, slots=True)
class BytesInput:
    """Keys, values, or one side of headers. An empty `index` is a column of nulls.

    `index` has 64-bit offsets into `data`. `valid` is a bitmap in which bit `bit` belongs to the
    first row, and is empty when nothing is null.
    """

    index: Int64s
    data: Bytes
    valid: Bytes
    bit: int

    @property
    def content_bytes(self) -> int:
        """How many bytes the rows take; the data may hold more when the array is a slice."""
        return int(self.index[-1] - self.index[0]) if len(self.index) else 0


@dataclass(frozen=True, slots=True)
class HeadersInput:
    """Which headers belong to which row: those from `index[row]` up to `index[row + 1]`."""

    index: Int64s
    valid: Bytes
    bit: int
    keys: BytesInput
    values: BytesInput

    @property
    def count(self) -> int:
        return int(self.index[-1] - self.index[0]) if len(self.index) else 0


NO_COLUMN: Final = BytesInput(_NO_INDEX, _NO_BYTES, _NO_BYTES, 0)
NO_HEADERS: Final = HeadersInput(_NO_INDEX, _NO_BYTES, 0, NO_COLUMN, NO_COLUMN)


def check_names(columns: pa.RecordBatch | pa.Table) -> None:
    """Refuse anything but a table whose columns have the names that `decode` gives them."""
    if not isinstance(columns, pa.RecordBatch | pa.Table):
        raise InvalidArgument(
            f"records come as a pyarrow RecordBatch or Table, not as {type(columns).__name__}"
        )
    names = columns.schema.names
    for name in names:
        if name not in BINARY_SCHEMA.names:
            raise InvalidArgument(
                f"a record has no column {name!r}: there are {', '.join(BINARY_SCHEMA.names)}"
            )
        if names.count(name) > 1:
            raise InvalidArgument(f"there are two columns called {name!r}")


def bytes_input(columns: pa.RecordBatch | pa.Table, name: str) -> BytesInput:
    """Return the key or value column, of any binary or string type; all null if it is absent."""
    if name not in columns.schema.names:
        return NO_COLUMN
    column = columns.column(name)
    if pa.types.is_null(column.type):
        return NO_COLUMN
    return _bytes_of(_cast(_one_array(column), pa.large_binary(), name))


def timestamps_input(
    columns: pa.RecordBatch | pa.Table, timestamp_ms: int | None
) -> tuple[Int64s, bool]:
    """Return the milliseconds, and whether there is only one for all rows.

    Raises:
        InvalidArgument: some record has no time and `timestamp_ms` gives none.
    """
    if timestamp_ms is not None and not -1 <= timestamp_ms < 2**63:
        raise InvalidArgument(f"timestamp_ms is {timestamp_ms}: it is -1 or an int64 from 0 on")
    if "timestamp" not in columns.schema.names:
        if timestamp_ms is None:
            raise InvalidArgument("records need a time: a 'timestamp' column or timestamp_ms")
        return read_only(np.array([timestamp_ms], dtype=np.int64)), True
    column = _one_array(columns.column("timestamp"))
    if pa.types.is_timestamp(column.type):
        # Spark's timestamps are microseconds: what is finer than Kafka's unit is cut off.
        kind = pa.timestamp("ms", tz=column.type.tz)
        column = pc.cast(column, options=pc.CastOptions.unsafe(kind)).view(pa.int64())
    elif not pa.types.is_integer(column.type):
        raise InvalidArgument(
            f"the timestamp column is {column.type}: it takes timestamps or milliseconds as int64"
        )
    column = _cast(column, pa.int64(), "timestamp")
    if column.null_count:
        if timestamp_ms is None:
            raise InvalidArgument(
                f"{column.null_count} records have a null timestamp: give timestamp_ms for them"
            )
        column = pc.fill_null(column, timestamp_ms)
    # Not to_numpy: its first call imports pandas, which a worker of Spark may do without.
    return read_only(np.from_dlpack(column).view(np.int64)), False


def headers_input(columns: pa.RecordBatch | pa.Table) -> HeadersInput:
    """Return the headers, from lists of structs with key and value or from maps; null is none."""
    if "headers" not in columns.schema.names:
        return NO_HEADERS
    column = _one_array(columns.column("headers"))
    if pa.types.is_null(column.type):
        return NO_HEADERS
    if pa.types.is_map(column.type):
        column = _lists_of_map(column)
    column = _cast(column, _HEADER_LISTS, "headers")
    if not len(column):
        return NO_HEADERS
    index = _index_of(column)
    if index[0] == index[-1]:
        return NO_HEADERS
    pairs = column.values
    keys = pairs.field("key")
    if pairs.null_count or keys.null_count:
        raise InvalidArgument("a header's key cannot be null; its value may be")
    valid, bit = _validity_of(column)
    return HeadersInput(index, valid, bit, _bytes_of(keys), _bytes_of(pairs.field("value")))


def _lists_of_map(column: pa.MapArray) -> pa.Array:
    pairs = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])
    offsets = column.offsets
    lists = pa.ListArray.from_arrays(offsets, pairs)
    return pc.if_else(column.is_valid(), lists, None) if column.null_count else lists


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    # 32-bit offsets would not reach past 2 GiB of chunks.
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        column = column.cast(pa.large_binary())
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def _cast(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidArgument(
            f"the column {name!r} is {column.type}, which does not turn into {kind}: {error}"
        ) from error


def _bytes_of(column: pa.Array) -> BytesInput:
    if not len(column):
        return NO_COLUMN
    data = column.buffers()[2]
    content = _NO_BYTES if data is None or not data.size else readable(data)
    return BytesInput(_index_of(column), content, *_validity_of(column))


def _index_of(column: pa.Array) -> Int64s:
    """Return the offsets of the rows of this slice."""
    index = read_only(np.frombuffer(column.buffers()[1], dtype=np.int64))
    return index[column.offset : column.offset + len(column) + 1]


def _validity_of(column: pa.Array) -> tuple[Bytes, int]:
    valid = column.buffers()[0]
    if valid is None or not column.null_count:
        return _NO_BYTES, 0
    return readable(valid), column.offset
