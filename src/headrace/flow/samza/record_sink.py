"""Records that a component has made itself, on their way to their topics."""

import pyarrow as pa

from headrace.flow.runtime.record import RECORDS
from headrace.flow.runtime.work import Emit, Source, TaskContext, Work


class RecordSink(Work):
    """Its input has the fields of records, topic included."""

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        emit(batch, stream=RECORDS, rows=range(batch.num_rows))
