"""What a task does: read one range of offsets and hand it to Spark in Arrow batches.

Runs on executors, in a Python worker that Spark may use again for the next task. A task that dies
is run again by Spark from the range's first offset: nothing here remembers anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.client.error import BrokerError, ClientError, PositionOutOfRange
from headrace.client.read.read_range import ReadRange
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.spark.source.column import SourceColumns
from headrace.spark.source.data_loss import report_loss
from headrace.spark.source.filter import TimeTest, keep_rows
from headrace.spark.source.offset_range import OffsetRange
from headrace.spark.source.option import SourceOptions
from headrace.spark.source.schema import check_columns
from headrace.spark.value.decoder import value_decoder
from headrace.spark.worker_memory import settle
from headrace.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from headrace.audit.range_tally import RangeTally

# Spark tells tasks which query they work for; the id is that of its checkpoint.
_QUERY_ID: Final = "sql.streaming.queryId"
# The topic is not there any more, or another one has its name.
_DELETED: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})

# How long to ask whether a leader is there, after it has been silent for as long as a task waits.
_ASK_MS: Final = 10_000


class RangePartition(InputPartition):
    """A Spark partition: one range of offsets.

    Args:
        begins: whether what lies before it may never have been read by this query.
    """

    def __init__(self, range_: OffsetRange, *, begins: bool = False) -> None:
        super().__init__(range_)
        self.range = range_
        self.begins = begins


@dataclass(frozen=True, slots=True)
class SourceTask:
    """How to read any range of one query. It pickles: Spark sends it to every task.

    Attributes:
        reading: names this read, for the audit; a stream has the id of its query.
    """

    options: SourceOptions
    schema: StructType
    times: tuple[TimeTest, ...] = ()
    reading: str = ""

    def check(self) -> None:
        """Raises:
        ConfigError: the schema asks for what the source does not have.
        """
        self._columns(TopicPartition("", 0))

    def read(self, wanted: OffsetRange, *, begins: bool = False) -> Iterator[pa.RecordBatch]:
        """The records of the range, in order. They are counted, if they are to be, when the last of
        them was taken: before the task ends, and so before Spark can note that it has.

        Raises:
            DataLoss: the log begins past the range's start, or ends before its end, or is gone.
        """
        columns = self._columns(wanted.partition)
        tally = self._tally(wanted, begins=begins)
        for decoded in self._decoded(wanted, columns.decoded_names()):
            kept = keep_rows(decoded, self.times, "timestamp")
            if kept.num_rows:
                if tally is not None:
                    tally.count(np.from_dlpack(kept.column("timestamp").cast(pa.int64())))
                yield columns.batch(kept)
        if tally is not None:
            tally.write(ClientSettings.of(self.options.client))
        settle()

    def _tally(self, wanted: OffsetRange, *, begins: bool) -> "RangeTally | None":
        audit = self.options.audit
        # Counting the counts would never end.
        if audit is None or wanted.partition.topic == audit.topic:
            return None
        from headrace.audit.range_tally import RangeTally

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        reader = query or self.reading
        return RangeTally(audit, reader, wanted.partition, wanted.start, begins=begins)

    def _columns(self, partition: TopicPartition) -> SourceColumns:
        check_columns(self.schema.names, headers=self.options.include_headers)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        decode_value = None
        if "value" in schema.names:
            decode_value = value_decoder(self.options.value_format, schema.field("value").type)
        return SourceColumns(schema, partition, decode_value)

    def _decoded(self, wanted: OffsetRange, names: list[str]) -> Iterator[pa.RecordBatch]:
        """What is there of the range. Offsets that are gone are reported and passed over."""
        if (self.times or self.options.audit is not None) and "timestamp" not in names:
            names = [*names, "timestamp"]
        left = wanted
        while left.size > 0:
            try:
                yield from self._read_on(left, names)
                return
            except PositionOutOfRange as error:
                self._lose(str(error))
                # A log that ends before the range was cut off, or its topic made anew: what it has
                # is none of what the range meant.
                after = wanted.end if error.offset >= error.log_start else error.log_start
                left = OffsetRange(wanted.partition, after, wanted.end)
            except BrokerError as error:
                if error.code not in _DELETED:
                    raise
                self._lose(str(error))
                return

    def _read_on(self, left: OffsetRange, names: list[str]) -> Iterator[pa.RecordBatch]:
        # Only here: the processes in which Spark plans load this file too, and need no kernels.
        from headrace.client.read.reader import Reader

        settings = ClientSettings.of(self.options.client)
        with Reader(
            settings,
            {left.partition: ReadRange(left.start, left.end)},
            read_committed=self.options.read_committed,
            columns=names,
        ) as reader:
            while not reader.ended:
                chunk = reader.poll(settings.api_timeout_ms / 1000)
                if chunk is not None:
                    yield chunk.columns
                elif not reader.ended:
                    # The driver saw the log reach the range's end. The reader may come to the same
                    # conclusion first, and then says it in the same words.
                    self._check_answers(left.partition)
                    self._lose(
                        f"offset {reader.positions[left.partition]} of {left.partition} is not "
                        f"there: nothing came of what was to be read up to {left.end}"
                    )
                    return

    def _check_answers(self, partition: TopicPartition) -> None:
        """Silence is a loss only where somebody could have spoken: what a leader has that cannot be
        reached is still there, and must not be passed over.

        Raises:
            ClientError: nobody answers for the partition.
        """
        from headrace.client.network.pool import ConnectionPool
        from headrace.client.read.offset_lookup import LATEST, list_offsets

        client = {**self.options.client, "default.api.timeout.ms": str(_ASK_MS)}
        with ConnectionPool(ClientSettings.of(client)) as pool:
            answer = list_offsets(pool, {partition: LATEST})[partition]
        if isinstance(answer, ClientError):
            raise answer

    def _lose(self, what: str) -> None:
        report_loss(what, fail=self.options.fail_on_data_loss)
