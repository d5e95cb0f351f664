"""The task of an exactly-once sink: encodes its rows for the driver to commit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.encoder import SinkEncoder
from headrace.spark.sink.option import SinkOptions
from headrace.spark.sink.staging_topic import StagingTopic
from headrace.spark.sink.task_output import (
    CarriedBatch,
    StagedBatch,
    TaskOutput,
    carried_max_bytes,
    task_partition,
)
from headrace.spark.worker_memory import freeze_modules

_STAGED_AT_ONCE_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SinkTask:
    """Encodes the rows of one task. Nothing of them is in the target topics afterwards.

    Attributes:
        staging_topic: where batches wait that are too large to be carried to the driver.
        query_id: of the stream that the task belongs to.
        carry_up_to_bytes: up to this size the batches are carried to the driver, through Spark; by
            default the share of the task's partition.
    """

    options: SinkOptions
    columns: SinkColumns
    staging_topic: str
    query_id: str | None = None
    carry_up_to_bytes: int | None = None

    def run(self, rows: Iterator[pa.RecordBatch]) -> TaskOutput:
        """Encode rows and return them, or where they are staged. Holds a few megabytes at a time.

        Raises:
            ClientError: a topic does not exist, or batches could not be staged.
            InvalidArgument: rows that cannot become records.
        """
        options = self.options
        waiting: list[tuple[TopicPartition, memoryview]] = []
        waiting_bytes = record_count = 0
        limit_bytes = self.carry_up_to_bytes
        if limit_bytes is None:
            limit_bytes = carried_max_bytes(task_partition())
        staged: list[StagedBatch] = []
        staging: StagingTopic | None = None
        with ConnectionPool(options.settings) as pool:
            encoder = SinkEncoder(
                pool, self.columns, codec=options.codec, batch_bytes=options.batch_bytes
            )
            for target, data, count in encoder.batches(rows):
                waiting.append((target, data))
                waiting_bytes += len(data)
                record_count += count
                if waiting_bytes > limit_bytes:
                    if staging is None:
                        staging = StagingTopic(pool, self.staging_topic)
                        staging.open()
                        limit_bytes = _STAGED_AT_ONCE_BYTES
                    staged += staging.write(waiting)
                    waiting, waiting_bytes = [], 0
            if staging is not None and waiting:
                staged += staging.write(waiting)
                waiting = []
        freeze_modules()
        carried = [CarriedBatch(target, bytes(data)) for target, data in waiting]
        return TaskOutput(self.query_id, record_count, carried, staged)
