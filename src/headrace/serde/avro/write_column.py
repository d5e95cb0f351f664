"""Arrow arrays in the form that the writing kernel reads."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.error import InvalidArgument
from headrace.records.kernel.memory import Bytes, Int64s
from headrace.serde.avro.column import Column, Storage
from headrace.serde.avro.kernel import op
from headrace.serde.avro.kernel.write import UNFIT_STATE
from headrace.serde.avro.plain_array import check_offsets, valid_states
from headrace.serde.avro.write_program import WriteProgram

# What one entry of a column takes at most, but for the bytes of strings and fixed.
_ENTRY_BYTES = 64


class WriteColumns:
    """The addresses of all entries, states and strings of one array, and what holds them.

    Values are cast to the types of the schema's columns. Where some cannot be, each is tried alone,
    which is slow, and those that fail are marked.

    Attributes:
        data, states, contents: an address for each column, and a last one, 0, for none.
        counts: the entries of each level.
        most_bytes: what all values take at most.

    Raises:
        InvalidArgument: a column is missing, or of a type that cannot be written so.
    """

    def __init__(self, program: WriteProgram, array: pa.Array) -> None:
        count = len(program.tree.columns) + 1
        self.data: Int64s = np.zeros(count, dtype=np.int64)
        self.states: Int64s = np.zeros(count, dtype=np.int64)
        self.contents: Int64s = np.zeros(count, dtype=np.int64)
        self.counts: Int64s = np.zeros(program.tree.level_count, dtype=np.int64)
        self.counts[0] = len(array)
        self.most_bytes = _ENTRY_BYTES
        self._held: list[object] = []
        self._add(program.tree.root, array, "the column")
        for each in program.ops[program.ops[:, op.CODE] == op.FIXED_DECIMAL]:
            self.most_bytes += int(each[op.DEPTH] * self.counts[each[op.LEVEL]])

    def _add(self, column: Column, array: pa.Array, where: str) -> None:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        self.most_bytes += _ENTRY_BYTES * len(array)
        unfit: npt.NDArray[np.bool_] | None = None
        if pa.types.is_struct(column.type):
            self._struct(column, array, where)
        elif pa.types.is_list(column.type) or pa.types.is_map(column.type):
            self._list(column, array, where)
        elif column.storage is not Storage.NONE:
            unfit = self._leaf(column, array, where)
        if array.null_count or unfit is not None:
            states = valid_states(array)
            if unfit is not None:
                states[unfit] = UNFIT_STATE
            self.states[column.number] = self._hold(states)

    def _struct(self, column: Column, array: pa.Array, where: str) -> None:
        if not pa.types.is_struct(array.type):
            raise InvalidArgument(f"{where} must be a struct for an Avro record, not {array.type}")
        for each, child in zip(column.type, column.children, strict=True):
            at = array.type.get_field_index(each.name)
            if at < 0 and not child.nullable:
                raise InvalidArgument(f"{where} has no field {each.name!r} of the Avro schema")
            field = array.field(at) if at >= 0 else pa.nulls(len(array), child.type)
            self._add(child, field, f"the field {each.name!r} of {where}")

    def _list(self, column: Column, array: pa.Array, where: str) -> None:
        kind = array.type
        wanted = pa.types.is_map if pa.types.is_map(column.type) else pa.types.is_list
        large = pa.types.is_large_list(kind) and pa.types.is_list(column.type)
        if not wanted(kind) and not large:
            raise InvalidArgument(
                f"{where} must be {column.type} to be written as Avro, not {kind}"
            )
        self.data[column.number] = self._hold(_integers(array.offsets))
        parts = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
        self.counts[column.items_level] = len(parts[0])
        for child, part in zip(column.children, parts, strict=True):
            self._add(child, part, f"the items of {where}")

    def _leaf(self, column: Column, array: pa.Array, where: str) -> npt.NDArray[np.bool_] | None:
        kind = column.type
        match column.storage:
            case Storage.SYMBOL:
                texts, unfit = _cast(array, pa.string(), where)
                numbers = pc.index_in(texts, value_set=column.symbols).fill_null(-1)
                self.data[column.number] = self._hold(_integers(numbers))
                return unfit
            case Storage.PLACE:
                return self._texts(column, array, where)
            case Storage.BYTE:
                found, unfit = _cast(array, pa.bool_(), where)
                values = _values(found.fill_null(False).cast(pa.uint8()), np.uint8)
            case Storage.DECIMAL128 | Storage.DECIMAL256:
                found, unfit = _cast(array, pa.decimal256(76, kind.scale), where)
                values = _values(found, np.uint8, 32)
            case _ if pa.types.is_floating(kind):
                found, unfit = _cast(array, kind, where)
                values = _values(found, np.float32 if kind.bit_width == 32 else np.float64)
            case _:
                found, unfit = array, None
                if not pa.types.is_integer(kind):
                    found, unfit = _cast(array, kind, where)
                    if kind.bit_width == 32:
                        found = found.view(pa.int32())
                    else:
                        found = found.view(pa.int64())
                found, wide = _cast(found, pa.int64(), where)
                unfit = wide if unfit is None else unfit
                values = _values(found, np.int64)
        self.data[column.number] = self._hold(values)
        return unfit

    def _texts(self, column: Column, array: pa.Array, where: str) -> npt.NDArray[np.bool_] | None:
        kind = pa.large_string() if pa.types.is_string(column.type) else pa.large_binary()
        if pa.types.is_fixed_size_binary(array.type):
            array, _ = _cast(array, pa.binary(), where)
        found, unfit = _cast(array, kind, where)
        _, index, content = found.buffers()
        if index is None or not len(found):
            offsets: Int64s = np.zeros(len(found) + 1, dtype=np.int64)
        else:
            every = np.frombuffer(index, dtype=np.int64)
            offsets = every[found.offset : found.offset + len(found) + 1]
        check_offsets(offsets, len(found), 0 if content is None else content.size)
        self.data[column.number] = self._hold(offsets)
        if content is not None:
            self.contents[column.number] = content.address
            self._held.append(content)
        self.most_bytes += int(offsets[-1] - offsets[0])
        return unfit

    def _hold(self, values: npt.NDArray[np.generic]) -> int:
        array = np.ascontiguousarray(values)
        self._held.append(array)
        return int(array.ctypes.data)


def _integers(array: pa.Array) -> Int64s:
    return _values(array.cast(pa.int64()), np.int64).astype(np.int64)


def _values(array: pa.Array, kind: npt.DTypeLike, width: int = 1) -> npt.NDArray[np.generic]:
    """Return the values behind an array of fixed width; nulls have any."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array) * width, dtype=kind)
    begin = array.offset * width
    return np.frombuffer(data, dtype=kind)[begin : begin + len(array) * width]


def _cast(
    array: pa.Array, kind: pa.DataType, where: str
) -> tuple[pa.Array, npt.NDArray[np.bool_] | None]:
    """Return the array as another type, and which values cannot be, where there are such."""
    if array.type == kind:
        return array, None
    try:
        return array.cast(kind), None
    except pa.ArrowNotImplementedError as error:
        raise InvalidArgument(f"{where} of type {array.type} cannot be {kind}: {error}") from None
    except pa.ArrowInvalid:
        pass
    unfit = np.zeros(len(array), dtype=np.bool_)
    found = []
    for row in range(len(array)):
        try:
            found.append(array.slice(row, 1).cast(kind))
        except pa.ArrowInvalid:
            unfit[row] = True
            found.append(pa.nulls(1, kind))
    return pa.concat_arrays(found), unfit


def empty_bytes(size: int) -> Bytes:
    """Return room that takes memory only where it is written to."""
    return np.empty(size, dtype=np.uint8)
