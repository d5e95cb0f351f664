"""Runs the record kernels over scanned batches and makes Arrow columns of what they wrote."""

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.model.error import CorruptBatch
from headrace.records.batch import APPEND_TIME_BIT
from headrace.records.column import (
    HEADERS,
    NO_BYTES_COLUMN,
    NO_HEADERS,
    NO_NUMBER_COLUMN,
    TIMESTAMP,
    BytesColumn,
    NumberColumn,
    repeated,
)
from headrace.records.heads import Heads
from headrace.records.kernel import record_headers as header_kernel
from headrace.records.kernel import rows as kernel
from headrace.records.kernel.heads import (
    ATTRIBUTES,
    BASE_OFFSET,
    BUFFER,
    INFLATED,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    ROWS,
    SKIP,
)
from headrace.records.kernel.memory import Bytes, Int64s, readable

_COLUMN_FLAGS: Final = {
    "offset": kernel.COLUMN_OFFSET,
    "timestamp": kernel.COLUMN_TIMESTAMP,
    "key": kernel.COLUMN_KEY,
    "value": kernel.COLUMN_VALUE,
    "headers": kernel.COLUMN_HEADERS,
}
_NO_POSITIONS: Final = np.empty(0, dtype=np.int64)
# Small enough that batches whose records were just read are still in the core's own cache.
_PIECE_BYTES = 512 * 1024


class RowReader:
    """One decode of one table of batches: makes the buffers, runs the kernels, hands out columns.

    Args:
        heads: the batches, with those to skip marked and those that are compressed inflated.
        arena: the inflated bytes.
        schema: the columns wanted.
        views: keys and values as views.
    """

    def __init__(self, heads: Heads, arena: Bytes, schema: pa.Schema, views: bool) -> None:
        self._heads = heads
        self._fetched = readable(heads.view)
        self._arena = arena
        self._schema = schema
        self._views = views
        self._columns = kernel.AS_VIEWS if views else 0
        for name in schema.names:
            self._columns |= _COLUMN_FLAGS.get(name, 0)
        self._offsets = self._number_column("offset")
        self._timestamps = self._number_column("timestamp")
        self._keys = self._bytes_column("key")
        self._values = self._bytes_column("value")
        self._header_index = NO_BYTES_COLUMN
        self._header_at = _NO_POSITIONS
        if "headers" in schema.names:
            self._header_index = BytesColumn(heads.selected_count, 0)
            self._header_index.index.fill(0)
            self._header_at = np.empty(heads.selected_count, dtype=np.int64)
        self._result = np.zeros(kernel.RESULT_SLOTS, dtype=np.int64)

    def _number_column(self, name: str) -> NumberColumn:
        if name not in self._schema.names:
            return NO_NUMBER_COLUMN
        return NumberColumn(self._heads.selected_count)

    def _bytes_column(self, name: str) -> BytesColumn:
        if name not in self._schema.names:
            return NO_BYTES_COLUMN
        room = 0 if self._views else self._heads.selected_bytes
        return BytesColumn(self._heads.selected_count, room, views=self._views)

    def read(self, first_offset: int, past_offset: int, verify_crc: bool) -> pa.RecordBatch:
        """Read the records from `first_offset` up to `past_offset`.

        Raises:
            CorruptBatch: naming the batch, the record and what is wrong with it.
        """
        buffers = self._number_buffers() if self._views else []
        for first, past in self._heads.pieces(_PIECE_BYTES):
            self._read_piece(first, past, first_offset, past_offset)
            # The kernel is safe on any bytes, and its prefetching walk leaves them in the cache:
            # checking behind it, not before it, takes half the time.
            if verify_crc:
                self._heads.verify_crcs(first, past)
            if self._result[kernel.ERROR] != kernel.OK:
                raise self._corrupt(self._result.tolist())
        result = self._result.tolist()
        columns = [self._column(name, result, buffers) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _read_piece(self, first: int, past: int, first_offset: int, past_offset: int) -> None:
        kernel.read_rows(
            self._fetched,
            self._arena,
            self._heads.table,
            first,
            past,
            self._columns,
            first_offset,
            past_offset,
            self._offsets.values,
            self._timestamps.values,
            self._keys.index,
            self._keys.data,
            self._keys.valid,
            self._values.index,
            self._values.data,
            self._values.valid,
            self._header_index.index,
            self._header_at,
            self._result,
        )

    def _number_buffers(self) -> list[pa.Buffer]:
        """Number the buffers that views point into: the fetched bytes, the arena, or both when
        batches of both kinds are there.
        """
        table = self._heads.table
        selected = table[:, SKIP] == 0
        inflated = table[:, INFLATED] == 1
        buffers: list[pa.Buffer] = []
        for source, mine in (
            (self._fetched, selected & ~inflated),
            (self._arena, selected & inflated),
        ):
            if mine.any():
                table[mine, BUFFER] = len(buffers)
                buffers.append(pa.py_buffer(source))
        return buffers

    def _column(self, name: str, result: list[int], buffers: list[pa.Buffer]) -> pa.Array:
        rows = result[kernel.ROW_COUNT]
        match name:
            case "offset":
                return self._offsets.array(rows, pa.int64())
            case "timestamp":
                return self._timestamps.array(rows, TIMESTAMP)
            case "key":
                used, nulls = result[kernel.KEY_BYTES], result[kernel.KEY_NULLS]
                return self._finish(self._keys, rows, used, nulls, buffers)
            case "value":
                used, nulls = result[kernel.VALUE_BYTES], result[kernel.VALUE_NULLS]
                return self._finish(self._values, rows, used, nulls, buffers)
            case "headers":
                return self._headers(result)
            case "timestamp_type":
                types = (self._heads.table[:, ATTRIBUTES] & APPEND_TIME_BIT) // APPEND_TIME_BIT
                return self._per_batch(types, np.int8)
            case "producer_id":
                return self._per_batch(self._heads.table[:, PRODUCER_ID], np.int64)
            case _:
                return self._per_batch(self._heads.table[:, PRODUCER_EPOCH], np.int16)

    def _finish(
        self, column: BytesColumn, rows: int, used: int, nulls: int, buffers: list[pa.Buffer]
    ) -> pa.Array:
        if self._views:
            return column.view(rows, nulls, buffers)
        return column.binary(rows, used, nulls, pa.binary())

    def _per_batch(self, values: Int64s, kind: type[np.signedinteger]) -> pa.Array:
        return repeated(values, self._heads.table[:, ROWS], kind)

    def _headers(self, result: list[int]) -> pa.Array:
        pairs = self._header_pairs(result) if result[kernel.HEADER_COUNT] else NO_HEADERS
        return self._header_index.lists(result[kernel.ROW_COUNT], HEADERS, pairs)

    def _header_pairs(self, result: list[int]) -> pa.Array:
        count = result[kernel.HEADER_COUNT]
        keys = BytesColumn(count, result[kernel.HEADER_KEY_BYTES])
        values = BytesColumn(count, result[kernel.HEADER_VALUE_BYTES])
        outcome = np.zeros(header_kernel.RESULT_SLOTS, dtype=np.int64)
        header_kernel.read_headers(
            self._fetched,
            self._arena,
            self._heads.table,
            self._header_index.index,
            self._header_at,
            keys.index,
            keys.data,
            values.index,
            values.data,
            values.valid,
            outcome,
        )
        if outcome[header_kernel.FAILED]:
            raise CorruptBatch("The bytes of a batch changed while its headers were read.")
        names = keys.binary(count, result[kernel.HEADER_KEY_BYTES], 0, pa.string())
        if outcome[header_kernel.NOT_ASCII]:
            names = _readable_names(names)
        nulls = int(outcome[header_kernel.VALUE_NULLS])
        contents = values.binary(count, result[kernel.HEADER_VALUE_BYTES], nulls, pa.binary())
        return pa.StructArray.from_arrays([names, contents], fields=list(HEADERS.value_type))

    def _corrupt(self, result: list[int]) -> CorruptBatch:
        head = self._heads.table[result[kernel.ERROR_BATCH]]
        return CorruptBatch(
            f"The batch at byte {head[POSITION]} (base offset {head[BASE_OFFSET]}) is broken at "
            f"its record {result[kernel.ERROR_RECORD]}: {kernel.PROBLEMS[result[kernel.ERROR]]}."
        )


def _readable_names(names: pa.Array) -> pa.Array:
    """Give header keys that are no UTF-8 replacement characters, as Kafka's Java client does."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = names.view(pa.binary()).to_pylist()
        return pa.array([name.decode("utf-8", "replace") for name in raw], pa.string())
    return names
