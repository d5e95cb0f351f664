"""Reads a column of Avro values, each one datum, into an Arrow array."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.error import InvalidArgument
from headrace.records.kernel.memory import Bytes, Int64s
from headrace.schema.avro.parsed import AvroSchema
from headrace.schema.avro.tree import AvroType
from headrace.serde.avro.binary_input import BinaryInput
from headrace.serde.avro.entry_buffer import Assembly, EntryBuffers
from headrace.serde.avro.kernel.op import PROBLEMS
from headrace.serde.avro.kernel.read import STACK_WORDS, read_values
from headrace.serde.avro.plain_array import byte_array
from headrace.serde.avro.read_program import ReadProgram

# Items that take no bytes (nulls, empty records) are bounded by this number per value.
SPARE_ITEMS: Final = 128
# How many bytes are read before the room for items is made again by what they held so far.
_STEP_BYTES: Final = 1 << 20
# So many rows at most where each may have spare items.
_STEP_ROWS: Final = 1 << 13


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """What was read.

    Attributes:
        values: as many as there were; null where the input was null, and where it is bad.
        bad_rows: the rows whose bytes are no datum, rising.
    """

    values: pa.Array
    bad_rows: Int64s
    _problems: Bytes

    def problem(self, row: int) -> str:
        """Return why a row is bad, as the end of a sentence."""
        return PROBLEMS[int(self._problems[row])]


class AvroColumnReader:
    """Reads values of one writer's schema as those of a reader's.

        reader = AvroColumnReader(parse(SchemaText(SchemaType.AVRO, text)))
        column = reader.read(values)
        column.values, column.bad_rows

    Arrays and maps are read in steps, with room for as many items as the bytes of a step can hold,
    whatever counts they claim. A string is copied once, when the sizes of all are known.

    Any number of threads may use a reader, which works without the GIL.

    Args:
        writer: the schema that the values were written with.
        reader: the schema to read them as; the writer's without one.

    Raises:
        InvalidArgument: the reader's schema cannot read the writer's, a type holds itself, or
            the schema is too large for columns.
    """

    def __init__(self, writer: AvroSchema, reader: AvroSchema | None = None) -> None:
        self._prepare(writer.root, writer.root if reader is None else reader.root)

    @classmethod
    def of_type(cls, avro: AvroType) -> "AvroColumnReader":
        """Return a reader of values of one type."""
        return cls.between(avro, avro)

    @classmethod
    def between(cls, writer: AvroType, reader: AvroType) -> "AvroColumnReader":
        """Return a reader of values of one type as those of another."""
        found = cls.__new__(cls)
        found._prepare(writer, reader)
        return found

    def _prepare(self, writer: AvroType, reader: AvroType) -> None:
        self._program = ReadProgram(writer, reader)
        fewest = self._program.fewest_item_bytes
        self._spare_items = SPARE_ITEMS if 0 in fewest else 0
        self._constants: dict[tuple[bytes, int], pa.Array] = {}

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of what is read."""
        return self._program.tree.root.type

    def read(self, values: pa.Array, skip_bytes: int | npt.NDArray[np.integer] = 0) -> ReadColumn:
        """Read a column.

        Args:
            values: of type binary or large_binary, or string or large_string.
            skip_bytes: how many bytes come before the datum, in all rows or in each.

        Raises:
            InvalidArgument: the values are of another type, or more than 2 GiB.
        """
        source = BinaryInput.of(values, skip_bytes)
        rows = len(values)
        buffers = EntryBuffers(self._program, rows)
        problems: Bytes = np.zeros(rows, dtype=np.uint8)
        lengths = self._fill(source, buffers, problems)
        lengths[0] = rows
        valid = None
        bad_rows = np.flatnonzero(problems)
        if len(bad_rows) or source.has_nulls:
            valid = (problems == 0) & (source.starts >= 0)
        assembly = Assembly(buffers, source.data, lengths, self._constant)
        return ReadColumn(assembly.array(self._program.tree.root, valid), bad_rows, problems)

    def _fill(self, source: BinaryInput, buffers: EntryBuffers, problems: Bytes) -> Int64s:
        """Run the program over all rows, and return how many entries each level has."""
        program = self._program
        rows = len(problems)
        levels: Int64s = np.zeros(program.levels, dtype=np.int64)
        saved = np.zeros_like(levels)
        stack: Int64s = np.zeros((program.stack_depth or 1, STACK_WORDS), dtype=np.int64)
        first = 0
        while first < rows:
            past = rows
            if program.tree.level_count > 1:
                past = source.row_within(first, _STEP_BYTES)
                if self._spare_items:
                    past = min(past, first + _STEP_ROWS)
                self._make_room(source, buffers, levels, first, past)
            read_values(
                source.data,
                source.starts,
                source.ends,
                first,
                past,
                buffers.ops,
                program.tables,
                buffers.table,
                levels,
                saved,
                stack,
                self._spare_items,
                problems,
            )
            first = past
        return levels

    def _make_room(
        self, source: BinaryInput, buffers: EntryBuffers, levels: Int64s, first: int, past: int
    ) -> None:
        size = source.size_of(first, past)
        for level in range(1, self._program.tree.level_count):
            fewest = self._program.fewest_item_bytes[level]
            # One more: an item that is begun and cut off.
            most = size // fewest + 1 if fewest else size + (past - first) * SPARE_ITEMS + 1
            buffers.reserve(level, int(levels[level]) + most)

    def _constant(self, raw: bytes, avro: AvroType) -> pa.Array:
        found = self._constants.get((raw, id(avro)))
        if found is None:
            column = AvroColumnReader.of_type(avro).read(byte_array([raw], pa.binary()))
            if len(column.bad_rows):
                raise InvalidArgument(
                    f"the default of an Avro field is no value of its type: {column.problem(0)}"
                )
            found = self._constants[raw, id(avro)] = column.values
        return found
