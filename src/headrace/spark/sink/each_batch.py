"""Writes exactly once to topics from `foreachBatch`, which output mode "update" needs.

Spark allows a Python sink appended rows only: it refuses
`writeStream.format("headrace").outputMode("update")`. A running count changes rows that were
written before, so its stream uses `foreachBatch`, which allows every output mode. The tasks encode
their rows as the sink's tasks do, and the driver commits them in its own process.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.commit import commit_outputs
from headrace.spark.sink.option import read_sink_options
from headrace.spark.sink.task import SinkTask
from headrace.spark.sink.task_output import query_of, task_query_id
from headrace.spark.worker_socket import AcknowledgingFunction

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


Finish = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def each_batch(
    sink_id: str,
    options: Mapping[str, str],
    *,
    finish: Finish | None = None,
    finished_schema: "StructType | None" = None,
) -> Callable[[Any, int], None]:
    """Return a function for `foreachBatch`. A batch that Spark repeats after a crash adds nothing.

    Args:
        sink_id: the name of this sink among those of the same query. The query's own id, which is
            part of the checkpoint, is added to it: a query with a new checkpoint, whose batches
            count from 0 again, has a new sink.
        options: those of `write.format("headrace")`: kafka.bootstrap.servers, topic, ...
        finish: converts the rows of the batch to the rows to write, in the task that encodes them.
        finished_schema: the schema of the converted rows.

    Raises:
        ConfigError: a wrong option, by name.

    Example:
        counts.writeStream.outputMode("update").foreachBatch(
            each_batch("page-counts", {"kafka.bootstrap.servers": brokers, "topic": "counts"})
        )
    """
    # The batch's number is only known later; any number serves to read the options.
    texts = {"guarantee": "exactly-once", **options, "sinkId": sink_id, "batchId": "0"}
    sink_options = read_sink_options(texts, streaming=False)

    def name(query_id: str | None) -> str:
        name = f"{sink_options.prefix}-{sink_id}"
        return name if query_id is None else f"{name}-{query_id}"

    def write(rows: Any, batch_id: int) -> None:
        schema = finished_schema or rows.schema
        columns = SinkColumns(schema, sink_options.topic, sink_options.value)

        def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            query = task_query_id()
            batches = batches if finish is None else finish(batches)
            output = SinkTask(sink_options, columns, name(query), query).run(batches)
            yield pa.record_batch({"output": pa.array([pickle.dumps(output)], pa.binary())})

        encoded = rows.mapInArrow(AcknowledgingFunction(encode).__call__, "output BINARY").collect()
        # Pickled by our own tasks, a moment ago.
        outputs = [pickle.loads(bytes(row.output)) for row in encoded]  # noqa: S301
        sink = name(query_of(outputs))
        commit_outputs(sink_options, outputs, sink_id=sink, staging_topic=sink, batch_id=batch_id)

    return write
