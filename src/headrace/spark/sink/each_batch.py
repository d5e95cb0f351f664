"""Exactly once into topics from `foreachBatch`, which output mode "update" needs.

Spark lets a sink in Python take appended rows only: it refuses
`writeStream.format("headrace").outputMode("update")`. A running count changes rows that were
written before, so its stream goes through `foreachBatch`, which takes every output mode. The tasks
pack their rows as the sink's do, and the driver commits them in its own process.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.commit import commit_parcels
from headrace.spark.sink.option import read_sink_options
from headrace.spark.sink.task import pack
from headrace.spark.sink.task_output import query_of, task_query_id

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
    """What to give to `foreachBatch`. A batch that Spark repeats after a crash adds nothing.

    Args:
        sink_id: what tells this sink from the others of the same query. The query's own id, which
            lives in the checkpoint, is added to it: with a new checkpoint, whose batches count from
            0 again, it is a new sink.
        options: those of `write.format("headrace")`: kafka.bootstrap.servers, topic, ...
        finish: makes the rows to write of those that come, in the task that packs them.
        finished_schema: what it makes.

    Raises:
        ConfigError: a wrong option, by name.

    Example:
        counts.writeStream.outputMode("update").foreachBatch(
            each_batch("page-counts", {"kafka.bootstrap.servers": brokers, "topic": "counts"})
        )
    """
    # The batch's number is only known later; any will do to read the options.
    texts = {"guarantee": "exactly-once", **options, "sinkId": sink_id, "batchId": "0"}
    wanted = read_sink_options(texts, streaming=False)

    def name(query_id: str | None) -> str:
        name = f"{wanted.prefix}-{sink_id}"
        return name if query_id is None else f"{name}-{query_id}"

    def write(rows: Any, batch_id: int) -> None:
        columns = SinkColumns(finished_schema or rows.schema, wanted.topic)

        def parcel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            query = task_query_id()
            batches = batches if finish is None else finish(batches)
            packed = pack(wanted, columns, batches, stage_topic=name(query), query_id=query)
            yield pa.record_batch({"parcel": pa.array([pickle.dumps(packed)], pa.binary())})

        packed = rows.mapInArrow(parcel, "parcel BINARY").collect()
        # Pickled by our own tasks, a moment ago.
        parcels = [pickle.loads(bytes(row.parcel)) for row in packed]  # noqa: S301
        sink = name(query_of(parcels))
        commit_parcels(wanted, parcels, sink_id=sink, stage_topic=sink, batch_id=batch_id)

    return write
