"""The tasks of the source: each passes the records of one shard to Spark.

A task of a micro-batch gets the records from the driver, which has read them to plan it. After a
restart the driver has only the offsets of the checkpoint, and the task reads the shard itself. A
task of a batch query always does. Crash: Spark runs a task again; it keeps no state.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.spark.kinesis.client import KinesisFault, kinesis_client
from headrace.spark.kinesis.column import check_columns, source_batch
from headrace.spark.kinesis.option import FAIL_ON_DATA_LOSS, KinesisSourceOptions
from headrace.spark.kinesis.position import SHARD_END, Position, sequence_of
from headrace.spark.kinesis.shard_cursor import ShardCursor, ShardService
from headrace.spark.source.data_loss import report_loss
from headrace.spark.worker_memory import freeze_modules

_MISSING = "ResourceNotFoundException"


class CarriedPartition(InputPartition):
    """Records of a shard that the driver has read, as an Arrow stream."""

    def __init__(self, data: bytes) -> None:
        super().__init__(None)
        self.data = data


class RangePartition(InputPartition):
    """Records of a shard after one position and up to another."""

    def __init__(self, shard: str, start: Position, end: Position) -> None:
        super().__init__(None)
        self.shard, self.start, self.end = shard, start, end


class ShardPartition(InputPartition):
    """All records of a shard after a position, up to a page whose records all came after a time."""

    def __init__(self, shard: str, start: Position, until_ms: int) -> None:
        super().__init__(None)
        self.shard, self.start, self.until_ms = shard, start, until_ms


@dataclass(frozen=True, slots=True)
class KinesisTask:
    """Reads any partition of one query. It pickles: Spark sends it to every task."""

    options: KinesisSourceOptions
    schema: StructType

    def check(self) -> None:
        """Check the schema of the read.

        Raises:
            ConfigError: it has a column that the source does not have.
        """
        check_columns(self.schema.names)

    def carried(self, records: list[Mapping[str, Any]]) -> CarriedPartition:
        """Return a partition that has these records."""
        batch = self._batch(records)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return CarriedPartition(sink.getvalue().to_pybytes())

    def read(
        self, partition: InputPartition, service: ShardService | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a partition, in order."""
        match partition:
            case CarriedPartition(data=data):
                with pa.ipc.open_stream(data) as reader:
                    yield from reader
            case RangePartition() | ShardPartition():
                # Spark requires one partition, also of a stream without shards.
                found = service or kinesis_client(self.options.connection)
                for records in self._pages(partition, found):
                    yield self._batch(records)
        freeze_modules()

    def _pages(
        self, partition: RangePartition | ShardPartition, service: ShardService
    ) -> Iterator[list[Mapping[str, Any]]]:
        try:
            if isinstance(partition, RangePartition):
                yield from self._range(partition, service)
            else:
                yield from self._shard(partition, service)
        except KinesisFault as fault:
            if fault.code != _MISSING:
                raise
            self._report_loss(str(fault).removeprefix(f"{self.options.connection.stream}: "))

    def _range(
        self, partition: RangePartition, service: ShardService
    ) -> Iterator[list[Mapping[str, Any]]]:
        last = sequence_of(partition.end)
        cursor = self._cursor(partition.shard, partition.start, service)
        while cursor.position != SHARD_END:
            page = self._page(cursor)
            if last is None:
                yield page
                continue
            wanted = [each for each in page if int(each["SequenceNumber"]) <= last]
            if wanted:
                yield wanted
            if wanted and int(wanted[-1]["SequenceNumber"]) == last:
                return
            if len(wanted) < len(page) or (not page and cursor.is_at_end):
                break
        if last is not None:
            self._report_loss(
                f"{partition.shard} has no record {last} any more, at which a micro-batch ended"
            )

    def _shard(
        self, partition: ShardPartition, service: ShardService
    ) -> Iterator[list[Mapping[str, Any]]]:
        cursor = self._cursor(partition.shard, partition.start, service)
        while cursor.position != SHARD_END:
            page = self._page(cursor)
            is_late = all(_time_ms(each) >= partition.until_ms for each in page)
            if page and is_late:
                return
            # Whole pages: a time may be the producer's own, and one from the future ends nothing.
            if page:
                yield page
            if cursor.is_at_end:
                return

    def _page(self, cursor: ShardCursor) -> list[Mapping[str, Any]]:
        while True:
            delay = cursor.ready_at - time.monotonic()
            if delay > 0:
                time.sleep(delay)
            page = cursor.fetch(self.options.records_per_fetch)
            if page is not None:
                return list(page.records)

    def _cursor(self, shard: str, position: Position, service: ShardService) -> ShardCursor:
        return ShardCursor(
            service,
            shard,
            position,
            interval_seconds=self.options.fetch_interval_seconds,
            report_loss=self._report_loss,
        )

    def _batch(self, records: list[Mapping[str, Any]]) -> pa.RecordBatch:
        schema = to_arrow_schema(self.schema, timezone="UTC")
        return source_batch(schema, self.options.connection.stream, records)

    def _report_loss(self, what: str) -> None:
        what = f"{self.options.connection.stream}: {what}"
        report_loss(what, fail=self.options.fail_on_data_loss, option=FAIL_ON_DATA_LOSS)


def _time_ms(record: Mapping[str, Any]) -> float:
    return float(record["ApproximateArrivalTimestamp"].timestamp() * 1_000)
