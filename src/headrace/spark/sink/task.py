"""The task of an exactly-once sink: encodes its rows for the driver to commit."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.encoder import SinkEncoder
from headrace.spark.sink.option import SinkOptions
from headrace.spark.sink.staging_folder import StagedFile, StagingFile, StagingFolder
from headrace.spark.sink.staging_topic import StagingTopic
from headrace.spark.sink.task_output import (
    CarriedBatch,
    StagedBatch,
    TaskOutput,
    carried_max_bytes,
    task_attempt,
    task_partition,
)
from headrace.spark.worker_memory import freeze_modules

_LOG: Final = logging.getLogger("headrace.spark")
_STAGED_AT_ONCE_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SinkTask:
    """Encodes the rows of one task. Nothing of them is in the target topics afterwards.

    Attributes:
        staging_topic: where batches wait that are too large to be carried to the driver.
        folder: where they wait instead, if this task runs on the driver's machine.
        query_id: of the stream that the task belongs to.
        carry_up_to_bytes: up to this size the batches are carried to the driver, through Spark; by
            default the share of the task's partition.
    """

    options: SinkOptions
    columns: SinkColumns
    staging_topic: str
    query_id: str | None = None
    carry_up_to_bytes: int | None = None
    folder: StagingFolder | None = None

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
        with ConnectionPool(options.settings) as pool:
            encoder = SinkEncoder(
                pool, self.columns, codec=options.codec, batch_bytes=options.batch_bytes
            )
            with _TaskStaging(pool, self.staging_topic, self.folder) as stage:
                for target, data, count in encoder.batches(rows):
                    waiting.append((target, data))
                    waiting_bytes += len(data)
                    record_count += count
                    if waiting_bytes > limit_bytes:
                        stage.write(waiting)
                        waiting, waiting_bytes = [], 0
                        limit_bytes = _STAGED_AT_ONCE_BYTES
                if stage.is_used and waiting:
                    stage.write(waiting)
                    waiting = []
        freeze_modules()
        carried = [CarriedBatch(target, bytes(data)) for target, data in waiting]
        return TaskOutput(
            self.query_id, record_count, carried, stage.in_topic, stage.in_file, task_attempt()
        )


class _TaskStaging:
    """Where the batches of one task wait: in a file while it can be written, else in the topic.

    Attributes:
        in_topic: the batches in the topic.
        is_used: whether any batch was written.
    """

    def __init__(self, pool: ConnectionPool, topic: str, folder: StagingFolder | None) -> None:
        self.in_topic: list[StagedBatch] = []
        self.is_used = False
        self._pool = pool
        self._topic_name = topic
        self._topic: StagingTopic | None = None
        self._folder = folder
        self._file: StagingFile | None = None

    @property
    def in_file(self) -> StagedFile | None:
        """The batches in the file."""
        return None if self._file is None else self._file.contents

    def write(self, batches: Sequence[tuple[TopicPartition, memoryview]]) -> None:
        if not self.is_used and self._folder is not None:
            self._file = self._folder.file()
        self.is_used = True
        if self._topic is None and self._file is not None:
            try:
                self._file.write(batches)
            except OSError as error:
                _LOG.warning(
                    "staging_file_failed error=%r continued_in_topic=%s", error, self._topic_name
                )
            else:
                return
        if self._topic is None:
            self._topic = StagingTopic(self._pool, self._topic_name)
            self._topic.open()
        self.in_topic += self._topic.write(batches)

    def __enter__(self) -> "_TaskStaging":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
