"""What a task of the sink does with its rows."""

from collections.abc import Iterator

import pyarrow as pa

from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.encoder import SinkEncoder
from headrace.spark.sink.option import SinkOptions
from headrace.spark.sink.staging_topic import StagingTopic
from headrace.spark.sink.task_output import CARRIED_MAX_BYTES, CarriedBatch, StagedBatch, TaskOutput
from headrace.spark.worker_memory import settle

_STAGED_AT_ONCE_BYTES = 8 * 1024 * 1024


def pack(
    options: SinkOptions,
    columns: SinkColumns,
    rows: Iterator[pa.RecordBatch],
    *,
    stage_topic: str,
    query_id: str | None = None,
    carried_max_bytes: int = CARRIED_MAX_BYTES,
) -> TaskOutput:
    """Rows as a parcel for the driver. Holds no more than a few megabytes of them at a time.

    Raises:
        ClientError: a topic is not there, or batches could not be staged.
        InvalidArgument: rows that cannot be records.
    """
    waiting: list[tuple[TopicPartition, memoryview]] = []
    waiting_bytes = record_count = 0
    limit_bytes = carried_max_bytes
    staged: list[StagedBatch] = []
    stage: StagingTopic | None = None
    with ConnectionPool(options.settings) as pool:
        encoder = SinkEncoder(pool, columns, codec=options.codec, batch_bytes=options.batch_bytes)
        for target, data, count in encoder.batches(rows):
            waiting.append((target, data))
            waiting_bytes += len(data)
            record_count += count
            if waiting_bytes > limit_bytes:
                if stage is None:
                    stage = StagingTopic(pool, stage_topic)
                    stage.open()
                    limit_bytes = _STAGED_AT_ONCE_BYTES
                staged += stage.write(waiting)
                waiting, waiting_bytes = [], 0
        if stage is not None and waiting:
            staged += stage.write(waiting)
            waiting = []
    settle()
    carried = [CarriedBatch(target, bytes(data)) for target, data in waiting]
    return TaskOutput(query_id, record_count, carried, staged)
