"""What a component emitted during one call, checked against what it declared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.error import EmitError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM
from headrace.flow.runtime.route import Tasks
from headrace.flow.runtime.tuple_batch import Origin, TupleBatch, no_origin


@dataclass(frozen=True, slots=True)
class Emitted:
    """The tuples of one emit. `tasks` are those that a direct emit named."""

    stream: str
    batch: TupleBatch
    tasks: Tasks | None


@dataclass(slots=True)
class Emission:
    """Collects what a call emits until the call has returned. A call that raises emitted nothing.

    Attributes:
        input_batch: the batch that the component was called with; None for a tick.
        dead_letters: tuples that the component gave up, with the reason.
    """

    component: str
    outputs: Mapping[str, Fields]
    input_batch: TupleBatch | None
    emitted: list[Emitted] = field(default_factory=list)
    dead_letters: list[tuple[TupleBatch, Exception]] = field(default_factory=list)

    def dead_letter(self, tuples: TupleBatch, failure: Exception) -> None:
        """Give up tuples of this call or of earlier ones, and go on with the others.

        A component that cannot tell which tuple is bad raises instead.
        """
        self.dead_letters.append((tuples, failure))

    def __call__(
        self,
        columns: Any,
        *,
        stream: str = DEFAULT_STREAM,
        rows: Any = None,
        task: Any = None,
    ) -> None:
        fields = self.outputs.get(stream)
        if fields is None:
            raise EmitError(
                f"{self.component} emitted to the stream {stream!r}, but declares"
                f" {', '.join(self.outputs) or 'none'}"
            )
        batch = self._shaped(columns, fields, stream)
        if batch.num_rows == 0:
            return
        origin = self._origins(rows, batch.num_rows)
        tasks = None
        if task is not None:
            tasks = np.broadcast_to(np.asarray(task, dtype=np.int64), batch.num_rows)
        self.emitted.append(Emitted(stream, TupleBatch(batch, origin), tasks))

    def _origins(self, rows: Any, count: int) -> Origin:
        given = self.input_batch
        if given is None:
            return lambda: no_origin(count)
        if rows is None:
            return lambda: given.origins(None, count)
        if len(rows) != count:
            raise EmitError(f"{self.component} emitted {count} tuples with {len(rows)} rows")
        if isinstance(rows, range):
            if rows == range(given.num_rows):
                return lambda: given.origin  # one tuple per tuple: nothing to select
            rows = np.arange(rows.start, rows.stop, rows.step)
        indices = pa.array(rows, pa.int64())
        ends = pc.min_max(indices)
        if indices.null_count or ends["min"].as_py() < 0 or ends["max"].as_py() >= given.num_rows:
            raise EmitError(
                f"{self.component} emitted tuples with rows from {ends['min']} to {ends['max']},"
                f" but it was given {given.num_rows}, from 0"
            )
        return lambda: given.origins(indices, count)

    def _shaped(self, columns: Any, fields: Fields, stream: str) -> pa.RecordBatch:
        where = f"{self.component} declares {fields.ddl!r} for the stream {stream!r}"
        if isinstance(columns, pa.RecordBatch | pa.Table):
            if columns.schema.equals(fields.schema) and isinstance(columns, pa.RecordBatch):
                return columns
            columns = columns.columns
        if not isinstance(columns, Sequence):
            raise EmitError(f"{where} and emitted {type(columns).__name__}: emit columns")
        if len(columns) != len(fields):
            raise EmitError(f"{where} and emitted {len(columns)} columns")
        arrays = [
            self._column(column, field, where)
            for column, field in zip(columns, fields.schema, strict=True)
        ]
        if len({len(each) for each in arrays}) > 1:
            raise EmitError(f"{where} and emitted columns of different lengths")
        return pa.RecordBatch.from_arrays(arrays, schema=fields.schema)

    @staticmethod
    def _column(column: Any, field: pa.Field, where: str) -> pa.Array:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        try:
            if isinstance(column, pa.Array):
                return column if column.type == field.type else column.cast(field.type)
            return pa.array(column, field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise EmitError(f"{where}; {field.name} does not fit: {error}") from error
