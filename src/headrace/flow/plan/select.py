"""A bolt that is written as expressions: which tuples pass, and the fields that they have then.

Spark can run it without Python, so it runs in real-time mode too.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.error import FlowError
from headrace.flow.plan.expression import Expression
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work


class Select(Work):
    """Filters and projects tuples. Declare it like a bolt.

    Without columns it keeps the fields of its input and needs no `output`.

    Args:
        where: only tuples for which this is true pass.
        columns: the new fields by name, in the order of `output`.

    Example:
        topology.bolt("slow", Select(where="ms > 1000")).shuffle("views")
        topology.bolt("pages", Select(page="lower(page)", ms="ms"), output="page STRING, ms INT")
    """

    def __init__(self, where: str | None = None, **columns: str) -> None:
        self.where = None if where is None else Expression(where)
        self.columns = {name: Expression(text) for name, text in columns.items()}

    def check_fields(self, fields: Fields, name: str) -> None:
        for each in (*self.columns.values(), *([] if self.where is None else [self.where])):
            fields.check_known(each.names, f"the expression {each.text!r} of {name}")

    def check_outputs(self, outputs: Mapping[str, Fields], name: str) -> None:
        declared = outputs.get(DEFAULT_STREAM)
        if self.columns and (declared is None or declared.names != tuple(self.columns)):
            raise FlowError(
                f"{name} selects {', '.join(self.columns)}, but its output is"
                f" {declared.ddl if declared else 'not declared'}: declare these, in this order"
            )

    def output(self, fields: Fields, who: str) -> Fields:
        """Return the fields of its tuples, where the declaration has no output."""
        return fields

    def expressions(self, outputs: Fields) -> list[str]:
        """Return its columns in Spark's SQL."""
        return [
            f"CAST({self.columns[name].sql if self.columns else f'`{name}`'}"
            f" AS {outputs.ddl_of(name)}) AS `{name}`"
            for name in outputs.names
        ]

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        rows: pa.Array | range = range(batch.num_rows)
        if self.where is not None:
            rows = pc.indices_nonzero(self.where.compute(batch).fill_null(False))
            batch = batch.take(rows)
        columns = [each.compute(batch) for each in self.columns.values()]
        emit(columns or batch, rows=rows)
