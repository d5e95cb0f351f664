"""A batch read: `spark.read.format("kinesis")`. One task per shard, open or closed."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headrace.spark.kinesis.client import kinesis_client
from headrace.spark.kinesis.option import KinesisSourceOptions
from headrace.spark.kinesis.task import KinesisTask, ShardPartition
from headrace.spark.worker_socket import AcknowledgingInput

# The service's time is rounded down to a second, and may lag behind that of the records.
_MARGIN_MS: Final = 5_000
# Spark requires at least one partition.
_NOTHING: Final = InputPartition(None)


class KinesisBatch(AcknowledgingInput, DataSourceReader):
    """Reads what the stream has when the query begins.

    A task ends at the end of its shard, or at a page of records that came after the query began. So
    the read ends while others put records.
    """

    def __init__(self, options: KinesisSourceOptions, schema: StructType) -> None:
        self._options = options
        self._task = KinesisTask(options, schema)
        self._task.check()

    def partitions(self) -> list[InputPartition]:
        starting = self._options.starting
        assert starting is not None
        shards, now_ms = kinesis_client(self._options.connection).list_shards()
        until_ms = now_ms + _MARGIN_MS
        return [ShardPartition(each.id, starting, until_ms) for each in shards] or [_NOTHING]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.read(partition)
