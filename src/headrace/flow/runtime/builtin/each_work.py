"""A user's function, called for each tuple."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.flow.error import EmitError
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.tuple_value import returned_tuples, rows_of


class EachWork(Work):
    """Emits what a function returns for each tuple: no tuple, one or several.

    Args:
        inputs: the fields that the function is called with; None: all of them.
        kept: the fields of the input that come before the returned ones.
        width: how many fields the function returns.
    """

    by_tuple = True

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        inputs: tuple[str, ...] | None = None,
        kept: tuple[str, ...] = (),
        width: int,
    ) -> None:
        self.function = function
        self.inputs = inputs
        self.kept = kept
        self.width = width

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        function, width = self.function, self.width
        inputs = tuple(batch.schema.names) if self.inputs is None else self.inputs
        returned: list[tuple[Any, ...]] = []
        rows: list[int] = []
        for row, values in enumerate(rows_of(batch, inputs)):
            for each in returned_tuples(function(*values)):
                if len(each) != width:
                    new = "new fields" if self.kept else "fields"
                    raise EmitError(
                        f"{context.component} declares {width} {new} and gave {len(each)}: {each!r}"
                    )
                returned.append(each)
                rows.append(row)
        if not returned:
            return
        kept = batch.select(list(self.kept)).take(pa.array(rows, pa.int64())).columns
        emit([*kept, *map(list, zip(*returned, strict=True))], rows=rows)
