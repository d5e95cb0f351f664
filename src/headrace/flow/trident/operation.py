"""Operations of a chain that run where their tuples are made."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.tuple_value import rows_of

Function = Callable[..., Any]
Names = str | Sequence[str]


class FilterWork(Work):
    """Keeps the tuples for which a function returns true."""

    by_tuple = True

    def __init__(self, function: Function, inputs: tuple[str, ...]) -> None:
        self.function = function
        self.inputs = inputs

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        values = enumerate(rows_of(batch, self.inputs))
        rows = [row for row, each in values if self.function(*each)]
        if rows:
            emit(batch.take(pa.array(rows, pa.int64())), rows=rows)


class PeekWork(Work):
    """Calls a function with each tuple, and passes all tuples on."""

    by_tuple = True

    def __init__(self, function: Function) -> None:
        self.function = function

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        for values in rows_of(batch, tuple(batch.schema.names)):
            self.function(*values)
        emit(batch, rows=range(batch.num_rows))


class ProjectWork(Work):
    """Keeps some fields. With all of them it only merges streams."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        emit(batch.select(list(self.names)), rows=range(batch.num_rows))


class ExtremeWork(Work):
    """Keeps the tuple of a batch with the least or the greatest value of a field."""

    def __init__(self, field: str, *, greatest: bool) -> None:
        self.field = field
        self.greatest = greatest

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        values = enumerate(batch.column(self.field).to_pylist())
        known = [(value, row) for row, value in values if value is not None]
        if known:
            _, row = (max if self.greatest else min)(known, key=lambda each: each[0])
            emit(batch.slice(row, 1), rows=[row])


def evenly(batch: pa.RecordBatch, tasks: int) -> Any:
    """Choose tasks in turn; for a `Custom` grouping."""
    import numpy as np

    return np.arange(batch.num_rows) % tasks


def names_of(names: Names) -> tuple[str, ...]:
    """Return names as a user writes them: one, several, or several in one text."""
    if isinstance(names, str):
        return tuple(each.strip() for each in names.split(",") if each.strip())
    return tuple(names)
