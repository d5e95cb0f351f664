"""What a chain does with tuples one by one, where they are made."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from headrace.flow.error import EmitError
from headrace.flow.runtime.work import Emit, Source, TaskContext, Work

Function = Callable[..., Any]


class EachWork(Work):
    """Appends what a function makes of some fields; for each tuple none, one or several.

    Args:
        inputs: the fields the function is called with.
        kept: the fields of the tuple that stay before the new ones.
        width: how many new ones there are.
    """

    def __init__(
        self, function: Function, inputs: tuple[str, ...], kept: tuple[str, ...], width: int
    ) -> None:
        self.function = function
        self.inputs = inputs
        self.kept = kept
        self.width = width

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        made: list[tuple[Any, ...]] = []
        rows: list[int] = []
        for row, values in enumerate(rows_of(batch, self.inputs)):
            for each in tuples(self.function(*values)):
                if len(each) != self.width:
                    raise EmitError(
                        f"{context.component} declares {self.width} new fields and gave"
                        f" {len(each)}: {each!r}"
                    )
                made.append(each)
                rows.append(row)
        if made:
            kept = batch.select(list(self.kept)).take(pa.array(rows, pa.int64()))
            emit([*kept.columns, *map(list, zip(*made, strict=True))], rows=rows)


class FilterWork(Work):
    """Keeps the tuples for which a function says yes."""

    def __init__(self, function: Function, inputs: tuple[str, ...]) -> None:
        self.function = function
        self.inputs = inputs

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        values = enumerate(rows_of(batch, self.inputs))
        rows = [row for row, each in values if self.function(*each)]
        if rows:
            emit(batch.take(pa.array(rows, pa.int64())), rows=rows)


class PeekWork(Work):
    """Shows each tuple to a function, and passes all of them on."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        for values in rows_of(batch, tuple(batch.schema.names)):
            self.function(*values)
        emit(batch, rows=range(batch.num_rows))


class ProjectWork(Work):
    """Keeps some fields, or all of them: then it only joins streams."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        emit(batch.select(list(self.names)), rows=range(batch.num_rows))


class ExtremeWork(Work):
    """The one tuple of a batch that has the least, or the greatest, value of a field."""

    def __init__(self, field: str, *, greatest: bool) -> None:
        self.field = field
        self.greatest = greatest

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        values = enumerate(batch.column(self.field).to_pylist())
        known = [(value, row) for row, value in values if value is not None]
        if known:
            _, row = (max if self.greatest else min)(known, key=lambda each: each[0])
            emit(batch.slice(row, 1), rows=[row])


def rows_of(batch: pa.RecordBatch, names: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
    """The values of some fields, tuple by tuple."""
    if not names:
        return (() for _ in range(batch.num_rows))
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def tuples(given: Any) -> Iterable[tuple[Any, ...]]:
    """What a function gave: None, a value, a tuple, or several of these in a list."""
    if given is None:
        return ()
    if isinstance(given, tuple):
        return (given,)
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        return ((given,),)
    return [each if isinstance(each, tuple) else (each,) for each in given]


def evenly(batch: pa.RecordBatch, tasks: int) -> Any:
    """A grouping that carries tuples to all tasks in turn."""
    import numpy as np

    return np.arange(batch.num_rows) % tasks
