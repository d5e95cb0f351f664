"""The memory that a program reads into, and the Arrow arrays made of it."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.error import InvalidArgument
from headrace.records.kernel.memory import Bytes, Int64s
from headrace.schema.avro.tree import AvroType
from headrace.serde.avro.column import Column, Storage
from headrace.serde.avro.kernel import op
from headrace.serde.avro.kernel.gather import gather, measure
from headrace.serde.avro.kernel.read import COLUMN_WORDS
from headrace.serde.avro.plain_array import repeated
from headrace.serde.avro.read_program import ReadProgram

_INT32_END = 1 << 31

ConstantReader = Callable[[bytes, AvroType], pa.Array]
"""Reads a default into an array of one entry."""


class EntryBuffers:
    """The entries and the states of all columns, zero at first; they grow level by level.

    A buffer is at most twice what is used, and pages that are not written to take no memory.
    """

    def __init__(self, program: ReadProgram, rows: int) -> None:
        self._columns = _kept(program.tree.root)
        self._capacity = [0] * program.levels
        count = len(program.tree.columns)
        self._entries: list[Bytes] = [_NOTHING] * count
        self._states: list[Bytes] = [_NOTHING] * count
        self.ops = program.ops.copy()
        self.table: Int64s = np.zeros((len(self._columns), COLUMN_WORDS), dtype=np.int64)
        self._reserve({0: rows})
        self._point()

    def reserve(self, level: int, entries: int) -> None:
        """Make room for this many entries, and keep those that are there."""
        if entries > self._capacity[level]:
            self._reserve({level: max(entries, 2 * self._capacity[level])})
            self._point()

    def _reserve(self, wanted: dict[int, int]) -> None:
        for column in self._columns:
            if column.level not in wanted:
                continue
            entries = wanted[column.level]
            old = self._entries[column.number]
            self._entries[column.number] = _grown(old, entries * column.storage.width)
            if column.nullable:
                old = self._states[column.number]
                self._states[column.number] = _grown(old, entries)
        for level, entries in wanted.items():
            self._capacity[level] = entries

    def _point(self) -> None:
        """Write the addresses of all buffers into the program and the table."""
        data = np.zeros(len(self._entries) + 1, dtype=np.int64)  # the last is that of no column
        states = np.zeros(len(self._entries) + 1, dtype=np.int64)
        for row, column in enumerate(self._columns):
            number = column.number
            # A column without entries has no address, but what is read by it is none either.
            if column.storage.width:
                data[number] = self._entries[number].ctypes.data
            if column.nullable:
                states[number] = self._states[number].ctypes.data
            width = column.storage.width
            self.table[row] = (data[number], width, states[number], column.level)
        self.ops[:, op.DATA] = data[self.ops[:, op.COLUMN]]
        self.ops[:, op.VALID] = states[self.ops[:, op.COLUMN]]

    def entries(self, column: Column, length: int) -> Bytes:
        """Return the bytes of a column's entries."""
        return self._entries[column.number][: length * column.storage.width]

    def states(self, column: Column, length: int) -> Bytes:
        """Return one byte per entry: 1 for one that is not null."""
        return self._states[column.number][:length]


class Assembly:
    """Makes Arrow arrays of entries that were read from `data`, `lengths` for each level."""

    def __init__(
        self, buffers: EntryBuffers, data: Bytes, lengths: Int64s, constant: ConstantReader
    ) -> None:
        self._buffers = buffers
        self._data = data
        self._lengths = lengths
        self._constant = constant
        # Without the last level, of items that are not kept.
        if int(lengths[:-1].max()) >= _INT32_END:
            raise InvalidArgument(
                "the arrays of these Avro values have more items than fit into one column: "
                "read fewer values at once"
            )

    def array(self, column: Column, valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
        """Return a column's array.

        Args:
            column: a column that was read.
            valid: which entries are not null beyond what the column itself says.
        """
        length = int(self._lengths[column.level])
        if column.default is not None:
            return repeated(self._constant(*column.default), length)
        if column.nullable:
            states = self._buffers.states(column, length).view(np.bool_)
            valid = states if valid is None else states & valid
        nulls = 0 if valid is None else length - int(np.count_nonzero(valid))
        mask = None
        if valid is not None and nulls:
            mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
        return self._typed(column, length, mask, nulls)

    def _typed(self, column: Column, length: int, mask: pa.Buffer | None, nulls: int) -> pa.Array:
        kind = column.type
        entries = self._buffers.entries(column, length)
        match column.storage:
            case Storage.NONE if pa.types.is_struct(kind):
                children = [self.array(each) for each in column.children]
                return pa.Array.from_buffers(kind, length, [mask], nulls, children=children)
            case Storage.NONE:
                return pa.nulls(length)
            case Storage.BYTE:
                bits = pa.py_buffer(np.packbits(entries.view(np.bool_), bitorder="little"))
                return pa.Array.from_buffers(kind, length, [mask, bits], nulls)
            case Storage.PLACE:
                return self._texts(kind, entries.view(np.int64), mask, nulls)
            case Storage.SYMBOL:
                numbers = [mask, pa.py_buffer(entries)]
                assert column.symbols is not None
                return column.symbols.take(
                    pa.Array.from_buffers(pa.int32(), length, numbers, nulls)
                )
            case Storage.ITEMS:
                return self._lists(column, entries.view(np.int32), mask, nulls)
        return pa.Array.from_buffers(kind, length, [mask, pa.py_buffer(entries)], nulls)

    def _texts(
        self, kind: pa.DataType, places: Int64s, mask: pa.Buffer | None, nulls: int
    ) -> pa.Array:
        offsets = np.empty(len(places) + 1, dtype=np.int32)
        size = measure(places, offsets)
        data = pa.allocate_buffer(size)
        gather(self._data, places, np.frombuffer(data, dtype=np.uint8))
        buffers = [mask, pa.py_buffer(offsets), data]
        return pa.Array.from_buffers(kind, len(places), buffers, nulls)

    def _lists(
        self, column: Column, counts: npt.NDArray[np.int32], mask: pa.Buffer | None, nulls: int
    ) -> pa.Array:
        offsets = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=offsets[1:])
        children = [self.array(each) for each in column.children]
        if pa.types.is_map(column.type):
            pair = pa.struct([column.type.key_field, column.type.item_field])
            children = [pa.Array.from_buffers(pair, len(children[0]), [None], 0, children=children)]
        buffers = [mask, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(column.type, len(counts), buffers, nulls, children=children)


_NOTHING: Bytes = np.zeros(0, dtype=np.uint8)


def _grown(old: Bytes, size: int) -> Bytes:
    # int64, so that entries of eight bytes are aligned.
    new = np.zeros((size + 7) // 8, dtype=np.int64).view(np.uint8)
    new[: len(old)] = old
    return new


def _kept(column: Column) -> list[Column]:
    """Return the columns that are read, without those that are defaults and all below them."""
    if column.default is not None:
        return []
    return [column, *(found for each in column.children for found in _kept(each))]
