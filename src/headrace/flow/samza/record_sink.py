"""The sink of a job: its task has made records already."""

import pyarrow as pa

from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.record import RECORDS


class RecordSink(Work):
    """Passes its input on: it has the fields of records, topic included."""

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        emit(batch, stream=RECORDS, rows=range(batch.num_rows))
