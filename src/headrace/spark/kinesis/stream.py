"""A streaming read: `spark.readStream.format("kinesis")`.

The driver has one Python process with one `KinesisStream` while the query runs. It reads the
records of the next micro-batch to find where it ends, and passes them to the tasks. Crash: Spark's
checkpoint has a position per shard, so this process can die at any point. The next one is asked
about the same micro-batch, and its tasks read the same records from the stream.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.spark.kinesis.batch_fetcher import BatchFetcher, FetchedBatch, StreamService
from headrace.spark.kinesis.client import kinesis_client
from headrace.spark.kinesis.option import KinesisSourceOptions
from headrace.spark.kinesis.position import (
    TRIM_HORIZON,
    Shape,
    StreamOffset,
    dump_offset,
    load_offset,
)
from headrace.spark.kinesis.task import KinesisTask, RangePartition
from headrace.spark.worker_socket import AcknowledgingInput


class KinesisStream(AcknowledgingInput, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, and passes records on in tasks.

    Args:
        service: the API; by default that of the options.
    """

    def __init__(
        self,
        options: KinesisSourceOptions,
        schema: StructType,
        service: StreamService | None = None,
    ) -> None:
        self._options = options
        self._name = options.connection.stream
        self._task = KinesisTask(options, schema)
        self._task.check()
        self._service = service
        self._fetcher: BatchFetcher | None = None
        self._unpinned: StreamOffset | None = None
        self._fetched: tuple[StreamOffset, FetchedBatch] | None = None

    def initialOffset(self) -> Shape:  # noqa: N802, Spark's name
        """Return where a query begins that has no checkpoint, or died in its first micro-batch.

        Spark stores where a micro-batch ends, but not where the first one begins. LATEST would be
        later after a crash, and the records in between lost. So the first micro-batch of such a
        query is empty: it ends where it begins, and Spark stores that.
        """
        found = self._follow().initial()
        if self._options.starting is None:
            self._unpinned = found
        return dump_offset(self._name, found)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, Spark's name
        """Return the rows per shard. Bytes and time limit a micro-batch too."""
        return ReadMaxRows(self._options.max_records)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, Spark's name
        self._follow().stop_at_now()

    def latestOffset(self, start: Shape, limit: ReadLimit) -> Shape:  # noqa: N802, Spark's name
        """Return where the next micro-batch ends.

        The options bound it with every trigger: its records are in this process's memory.
        """
        begin = load_offset(self._name, start)
        self._fetched = None
        pins, self._unpinned = begin == self._unpinned, None
        if pins:
            return start
        fetched = self._follow().next_batch(begin)
        if fetched.end == begin:
            return start
        self._fetched = begin, fetched
        return dump_offset(self._name, fetched.end)

    def partitions(self, start: Shape, end: Shape) -> list[InputPartition]:
        begin, until = load_offset(self._name, start), load_offset(self._name, end)
        # A first micro-batch that is run again was empty, wherever it would begin now.
        if begin in (until, self._unpinned):
            return []
        if self._fetched is not None and self._fetched[0] == begin:
            fetched = self._fetched[1]
            if fetched.end == until:
                found = fetched.records
                return [self._task.carried(found[shard]) for shard in sorted(found)]
        if not self._follow().has(until):
            return []  # all that is left begins with the next micro-batch
        # A micro-batch in which the stream was found to be another one began with its first record.
        is_same = begin.created in (None, until.created)
        former = begin.shards if is_same else {}
        return [
            RangePartition(shard, former.get(shard, TRIM_HORIZON), position)
            for shard, position in until.shards.items()
            if former.get(shard, TRIM_HORIZON) != position
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.read(partition, self._service)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only the driver needs: Spark pickles a reader for its tasks."""
        return {**self.__dict__, "_fetcher": None, "_fetched": None, "_unpinned": None}

    def _follow(self) -> BatchFetcher:
        if self._fetcher is None:
            service = self._service or kinesis_client(self._options.connection)
            self._fetcher = BatchFetcher(service, self._options)
        return self._fetcher
