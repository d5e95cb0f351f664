"""Writes an Arrow array as a column of Avro values, each one datum."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.error import InvalidArgument
from headrace.records.kernel.memory import Bytes, Int64s, readable
from headrace.schema.avro.parsed import AvroSchema
from headrace.serde.avro.kernel import op
from headrace.serde.avro.kernel.op import PROBLEMS
from headrace.serde.avro.kernel.write import write_values
from headrace.serde.avro.plain_array import valid_states
from headrace.serde.avro.write_column import WriteColumns, empty_bytes
from headrace.serde.avro.write_program import WriteProgram

_MOST_BYTES = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """What was written.

    Attributes:
        values: as many as there were rows; null where a row was null, and where it is bad.
        bad_rows: the rows that the schema has no datum for, rising.
    """

    values: pa.Array
    bad_rows: Int64s
    _problems: Bytes

    def problem(self, row: int) -> str:
        """Return why a row is bad, as the end of a sentence."""
        return PROBLEMS[int(self._problems[row])]


class AvroColumnWriter:
    """Writes values of one schema, from the types that `AvroColumnReader` reads it into.

    Integers of any width, large strings and lists, dictionaries and fixed binaries are taken too.
    A null row of a schema that has no null is null, not bad: a record without a value.

    Raises:
        InvalidArgument: a type holds itself, or the schema is too large for columns.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self._program = WriteProgram(schema.root)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type that is written without a cast."""
        return self._program.tree.root.type

    def write(self, rows: pa.Array, prefix: bytes = b"") -> WrittenColumn:
        """Write a column.

        Args:
            rows: what to write.
            prefix: what to put before each datum, such as a registry's head.

        Raises:
            InvalidArgument: the rows are of a type that the schema does not take, or more than
                2 GiB when they are written.
        """
        program = self._program
        count = len(rows)
        columns = WriteColumns(program, rows)
        ops = program.ops.copy()
        ops[:, op.DATA] = columns.data[ops[:, op.COLUMN]]
        ops[:, op.VALID] = columns.states[ops[:, op.COLUMN]]
        skipped: Bytes = np.zeros(count, dtype=np.uint8)
        if rows.null_count and not program.tree.root.nullable:
            skipped[valid_states(rows) == 0] = 1
        out = empty_bytes(columns.most_bytes + count * len(prefix))
        offsets: Int64s = np.zeros(count + 1, dtype=np.int64)
        problems: Bytes = np.zeros(count, dtype=np.uint8)
        write_values(
            count,
            skipped,
            readable(prefix),
            ops,
            program.tables,
            columns.states,
            columns.contents,
            columns.counts,
            np.zeros_like(columns.counts),
            np.zeros(program.stack_depth or 1, dtype=np.int64),
            out,
            offsets,
            problems,
        )
        size = int(offsets[-1])
        if size > _MOST_BYTES:
            raise InvalidArgument(
                f"{size} bytes of Avro values are too many for one column: write fewer rows"
            )
        mask = None
        written = (problems == 0) & (skipped == 0)
        nulls = count - int(np.count_nonzero(written))
        if nulls:
            mask = pa.py_buffer(np.packbits(written, bitorder="little"))
        buffers = [mask, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out[:size].copy())]
        values = pa.Array.from_buffers(pa.binary(), count, buffers, nulls)
        return WrittenColumn(values, np.flatnonzero(problems), problems)
