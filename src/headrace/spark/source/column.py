"""Builds the columns of the source: the connector's names and types, from decoded records.

Spark accepts an Arrow batch only if its schema equals that of the DataFrame in every detail, so
every column is built in exactly that type. Columns that are the same in every row of a partition
(topic, partition) are built once and sliced.

pyarrow.compute is imported where it is used: the processes in which Spark plans load this file too.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.model.ids import TopicPartition
from headrace.spark.value.decoded import RowNumbers, ValueDecoder

_DECODED: Final[Mapping[str, str]] = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    "headers": "headers",
}
"""Columns that come out of records, by their name here and in `headrace.records.column`."""

_INT64 = np.iinfo(np.int64)
_MOST_MS: Final = _INT64.max // 1000


class SourceRows(NamedTuple):
    """Rows for Spark.

    Attributes:
        bad_rows: by column, keys or values, the rows in which it could not be decoded, rising.
    """

    batch: pa.RecordBatch
    bad_rows: Mapping[str, RowNumbers]


class SourceColumns:
    """Builds the batches for Spark from decoded columns of one partition.

    Args:
        schema: Spark's schema of the read, in Arrow.
        decoders: by column, keys or values, unless it stays bytes.
        corrupt_column: the name of the column with the bytes of values that cannot be decoded.
    """

    def __init__(
        self,
        schema: pa.Schema,
        partition: TopicPartition,
        decoders: Mapping[str, ValueDecoder] | None = None,
        corrupt_column: str | None = None,
    ) -> None:
        self._schema = schema
        self._sources = dict(_DECODED)
        if corrupt_column is not None:
            self._sources[corrupt_column] = "value"
        self._corrupt_column = corrupt_column
        self._partition = partition
        self._decoders = decoders or {}
        self._constants: dict[str, pa.Array] = {}

    def decoded_names(self) -> list[str]:
        """Return the columns to decode; at least one, to count rows."""
        found = [self._sources[name] for name in self._schema.names if name in self._sources]
        return list(dict.fromkeys(found)) or ["offset"]

    def rows(self, decoded: pa.RecordBatch) -> SourceRows:
        """Return decoded records in the schema of the read.

        Raises:
            BadValue: a key or value that cannot be decoded, if that is to fail the read.
        """
        read = {name: each.decode(decoded.column(name)) for name, each in self._decoders.items()}
        bad_rows = {name: each.bad_rows for name, each in read.items()}
        rows = decoded.num_rows
        arrays = []
        for field in self._schema:
            if field.name in read:
                arrays.append(read[field.name].values)
            elif field.name == self._corrupt_column:
                arrays.append(_only(decoded.column("value"), bad_rows["value"]))
            else:
                arrays.append(self._array(field, decoded, rows))
        if not arrays:
            whole = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        else:
            whole = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return SourceRows(whole, bad_rows)

    def _array(self, field: pa.Field, decoded: pa.RecordBatch, rows: int) -> pa.Array:
        name = field.name
        if name not in _DECODED:
            return self._constant(field, rows)
        column = decoded.column(_DECODED[name])
        if name == "timestamp":
            return _microseconds(column, field.type)
        if name == "headers":
            return _headers(column, field.type)
        return column if column.type == field.type else column.cast(field.type)

    def _constant(self, field: pa.Field, rows: int) -> pa.Array:
        """Return the same value `rows` times, as a slice of the longest array built so far."""
        found = self._constants.get(field.name)
        if found is None or len(found) < rows:
            if field.name == "topic":
                found = _repeated_text(self._partition.topic, field.type, rows)
            else:
                found = _repeated_int32(self._partition.partition, field.type, rows)
            self._constants[field.name] = found
        return found.slice(0, rows)


# Not pa.array or pa.scalar: their first call imports pandas, a third of a second in every worker.


def _repeated_text(text: str, kind: pa.DataType, rows: int) -> pa.Array:
    encoded = text.encode()
    ends = np.arange(rows + 1, dtype=np.int32) * len(encoded)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(encoded * rows)]
    return pa.Array.from_buffers(kind, rows, buffers, 0)


def _repeated_int32(number: int, kind: pa.DataType, rows: int) -> pa.Array:
    numbers = np.full(rows, number, dtype=np.int32)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(numbers)], 0)


def _only(values: pa.Array, rows: RowNumbers) -> pa.Array:
    """Return the values of some rows, and null in the others."""
    nulls = pa.nulls(len(values), values.type)
    if not len(rows):
        return nulls
    from pyarrow import compute as pc

    chosen = np.zeros(len(values), np.bool_)
    chosen[rows] = True
    return pc.if_else(pa.array(chosen), values, nulls)


def _microseconds(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert to Spark's microseconds. A time that does not fit becomes the largest that does."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        numbers = np.clip(column.cast(pa.int64()).to_numpy(), -_MOST_MS, _MOST_MS) * 1000
        return pa.array(numbers).cast(kind)


def _headers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Rename the parts of headers as Spark does. A record without headers has null."""
    column = column if column.offset == 0 else pa.concat_arrays([column])
    from pyarrow import compute as pc

    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    valid = pa.py_buffer(np.packbits(lengths > 0, bitorder="little").tobytes())
    items = column.values
    struct = kind.value_type
    children = [
        items.field(index).cast(struct.field(index).type) for index in range(struct.num_fields)
    ]
    renamed = pa.StructArray.from_arrays(children, fields=list(struct))
    return pa.Array.from_buffers(
        kind, len(column), [valid, column.buffers()[1]], -1, children=[renamed]
    )
