"""The task of a source: reads one range of offsets and passes it to Spark in Arrow batches.

Runs on executors, in a Python worker that Spark may reuse for the next task. Crash: Spark runs a
task that dies again, from the range's first offset. A task keeps no state.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from headrace.spark.source.column import SourceColumns, SourceRows
from headrace.spark.source.data_loss import report_loss
from headrace.spark.source.dead_letter import NEEDED, DeadLetters
from headrace.spark.source.filter import TimeTest, keep_rows
from headrace.spark.source.offset_range import OffsetRange
from headrace.spark.source.option import SourceOptions
from headrace.spark.source.schema import check_columns
from headrace.spark.value.decoded import ValueDecoder
from headrace.spark.value.decoder import value_decoder
from headrace.spark.value.format import ValueFormat
from headrace.spark.worker_memory import freeze_modules
from headrace.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from headrace.audit.range_tally import RangeTally

_LOG = logging.getLogger("headrace.spark")

# Spark passes the id of the query to tasks; it is part of the checkpoint.
_QUERY_ID: Final = "sql.streaming.queryId"
# The topic was deleted, or deleted and created again.
_DELETED: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})

# How long to look for the leader after no records came for as long as a task waits.
_LEADER_TIMEOUT_MS: Final = 10_000


class RangePartition(InputPartition):
    """A Spark partition: one range of offsets.

    Args:
        begins: whether this query may not have read the records before the range.
    """

    def __init__(self, range_: OffsetRange, *, begins: bool = False) -> None:
        super().__init__(range_)
        self.range = range_
        self.begins = begins


@dataclass(frozen=True, slots=True)
class SourceTask:
    """Reads any range of one query. It pickles: Spark sends it to every task.

    Attributes:
        reading: the name of this read for the audit; a stream uses the id of its query.
    """

    options: SourceOptions
    schema: StructType
    times: tuple[TimeTest, ...] = ()
    reading: str = ""

    def check(self) -> None:
        """Check the schema of the read, on the driver.

        Raises:
            ConfigError: it has a column or a type that the source does not have.
        """
        self._columns(TopicPartition("", 0))

    def read(self, range_: OffsetRange, *, begins: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the records of the range, in order. With an audit, their count is written after the
        last of them: before the task ends, and so before Spark can record that it has.

        Raises:
            DataLoss: the log begins after the range's start, or ends before its end, or is gone.
        """
        columns = self._columns(range_.partition)
        tally = self._tally(range_, begins=begins)
        letters = self._dead_letters(range_.partition)
        dropped = 0
        try:
            for decoded in self._decoded(range_, columns.decoded_names()):
                kept = keep_rows(decoded, self.times, "timestamp")
                if kept.num_rows:
                    if tally is not None:
                        tally.count(np.from_dlpack(kept.column("timestamp").cast(pa.int64())))
                    found = columns.rows(kept)
                    if letters is not None:
                        letters.write(kept, found.bad_rows["value"])
                    rows = self._without_malformed(found)
                    dropped += kept.num_rows - rows.num_rows
                    if rows.num_rows:
                        yield rows
            if letters is not None:
                letters.finish()
        except BaseException:
            if letters is not None:
                letters.abandon()
            raise
        if tally is not None:
            tally.write(ClientSettings.of(self.options.client))
        if dropped and self.options.drop_malformed:
            _LOG.warning(
                "malformed_records_dropped partition=%s start=%d end=%d records=%d",
                *(range_.partition, range_.start, range_.end, dropped),
            )
        freeze_modules()

    def _without_malformed(self, found: SourceRows) -> pa.RecordBatch:
        """Leave out rows that could not be decoded, where the options say so."""
        if self.options.drop_malformed:
            bad = list(found.bad_rows.values())
        elif self.options.dead_letter_topic is not None and "value" in found.bad_rows:
            bad = [found.bad_rows["value"]]
        else:
            return found.batch
        if not any(len(each) for each in bad):
            return found.batch
        kept = np.ones(found.batch.num_rows, np.bool_)
        for each in bad:
            kept[each] = False
        return found.batch.filter(pa.array(kept))

    def _dead_letters(self, partition: TopicPartition) -> DeadLetters | None:
        topic = self.options.dead_letter_topic
        if topic is None or "value" not in self.schema.names:
            return None
        strict = replace(self.options.value_format, fail_fast=True)
        kind = to_arrow_schema(self.schema, timezone="UTC").field("value").type
        explain = _decoder(strict, kind)
        assert explain is not None
        settings = ClientSettings.of(self.options.client)
        return DeadLetters(topic, settings, partition, explain)

    def _tally(self, range_: OffsetRange, *, begins: bool) -> "RangeTally | None":
        audit = self.options.audit
        # An audit of the audit topic would never end.
        if audit is None or range_.partition.topic == audit.topic:
            return None
        from headrace.audit.range_tally import RangeTally

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        reader = query or self.reading
        return RangeTally(audit, reader, range_.partition, range_.start, begins=begins)

    def _columns(self, partition: TopicPartition) -> SourceColumns:
        options = self.options
        check_columns(
            self.schema, headers=options.include_headers, corrupt_column=options.corrupt_column
        )
        schema = to_arrow_schema(self.schema, timezone="UTC")
        formats = {"key": options.key_format, "value": options.value_format}
        decoders = {
            name: decoder
            for name, each in formats.items()
            if name in schema.names
            and (decoder := _decoder(each, schema.field(name).type)) is not None
        }
        return SourceColumns(schema, partition, decoders, options.corrupt_column)

    def _decoded(self, range_: OffsetRange, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the existing records of the range. Report and skip offsets that are gone."""
        if (self.times or self.options.audit is not None) and "timestamp" not in names:
            names = [*names, "timestamp"]
        if self.options.dead_letter_topic is not None:
            names = [*names, *(each for each in NEEDED if each not in names)]
        left = range_
        while left.size > 0:
            try:
                yield from self._read_on(left, names)
                return
            except PositionOutOfRange as error:
                self._report_loss(str(error))
                # A log that ends before the range was truncated, or its topic was created again:
                # its records are not those of the range.
                after = range_.end if error.offset >= error.log_start else error.log_start
                left = OffsetRange(range_.partition, after, range_.end)
            except BrokerError as error:
                if error.code not in _DELETED:
                    raise
                self._report_loss(str(error))
                return

    def _read_on(self, left: OffsetRange, names: list[str]) -> Iterator[pa.RecordBatch]:
        # Imported here: the processes in which Spark plans load this file too, and need no kernels.
        from headrace.client.read.reader import Reader

        settings = replace(ClientSettings.of(self.options.client), reuses_connections=True)
        with Reader(
            settings,
            {left.partition: ReadRange(left.start, left.end)},
            read_committed=self.options.read_committed,
            columns=names,
            expect_one_fetch=True,
        ) as reader:
            while not reader.ended:
                chunk = reader.poll(settings.api_timeout_ms / 1000)
                if chunk is not None:
                    yield chunk.columns
                elif not reader.ended:
                    # The driver saw the log reach the range's end. The reader may notice the loss
                    # first, and reports it in the same words.
                    self._check_leader_responds(left.partition)
                    self._report_loss(
                        f"offset {reader.positions[left.partition]} of {left.partition} is not "
                        f"there: nothing came of what was to be read up to {left.end}"
                    )
                    return

    def _check_leader_responds(self, partition: TopicPartition) -> None:
        """Check that the partition's leader responds. Only then is missing data a loss: records of
        a leader that cannot be reached still exist, and must not be skipped.

        Raises:
            ClientError: no leader responds for the partition.
        """
        from headrace.client.network.pool import ConnectionPool
        from headrace.client.read.offset_lookup import LATEST, list_offsets

        client = {**self.options.client, "default.api.timeout.ms": str(_LEADER_TIMEOUT_MS)}
        with ConnectionPool(ClientSettings.of(client)) as pool:
            answer = list_offsets(pool, {partition: LATEST})[partition]
        if isinstance(answer, ClientError):
            raise answer

    def _report_loss(self, what: str) -> None:
        report_loss(what, fail=self.options.fail_on_data_loss)


def _decoder(value_format: ValueFormat, kind: pa.DataType) -> ValueDecoder | None:
    """Return what decodes a column of keys or values; None when they stay bytes.

    Raises:
        ConfigError: the format has no such type.
    """
    if value_format.registry is None:
        return value_decoder(value_format, kind)
    # Imported here: few reads have a registry, and every worker loads this file.
    from headrace.spark.value.registry.decoder import RegistryDecoding

    return RegistryDecoding(value_format.registry, kind, fail_fast=value_format.fail_fast)
