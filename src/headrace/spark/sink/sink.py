"""The sinks of Spark's format `headrace`: a stream's and a batch's.

Where what runs (Spark makes these objects anew for each call, in Python processes that it may use
again for other queries, so they keep nothing but what pickles):

- the constructor: on the driver, before each micro-batch and again before each commit;
- `write`: in the tasks, one for each partition of the rows. It may run twice for the same rows, at
  once or one after the other; the driver hears of one of the two;
- `commit` or `abort`: on the driver, when all tasks are done or one has failed for good.

Spark tells a micro-batch's number only to `commit`, and the query's id to nobody but the tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from headrace.model.error import HeadraceError, InvalidArgument
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.option import SinkGuarantee, SinkOptions, read_sink_options
from headrace.spark.sink.task_output import TaskOutput, query_of, task_query_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class StreamSink(DataSourceStreamArrowWriter):
    """`writeStream.format("headrace")`.

    Exactly-once unless the option `guarantee` says otherwise. The sink's name is made of the
    query's id, which Spark keeps in the checkpoint: a query that goes on from its checkpoint goes
    on with its sink, and one with a new checkpoint has a new one.

    Args:
        overwrite: the output mode is "complete". Kafka's connector appends then too, so that a
            compacted topic has the newest row of each key.
    """

    def __init__(
        self, options: Mapping[str, str], schema: "StructType", overwrite: bool = False
    ) -> None:
        self._options = read_sink_options(options, streaming=True)
        self._columns = SinkColumns(schema, self._options.topic)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        if self._options.guarantee is SinkGuarantee.AT_LEAST_ONCE:
            return _send(self._options, self._columns, iterator)
        from headrace.spark.sink.task import pack

        query_id = task_query_id()
        if query_id is None:
            raise HeadraceError(
                "Spark does not tell this task which query it belongs to, without which its rows "
                "cannot be written exactly once: set the option guarantee to at-least-once"
            )
        return pack(
            self._options,
            self._columns,
            iterator,
            stage_topic=self._name(query_id),
            query_id=query_id,
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        parcels = _parcels(messages)
        query_id = query_of(parcels)
        if query_id is None:
            return
        from headrace.spark.sink.commit import commit_parcels

        name = self._name(query_id)
        commit_parcels(self._options, parcels, sink_id=name, stage_topic=name, batch_id=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        parcels = _parcels(messages)
        for query_id in {each.query_id for each in parcels if each.staged}:
            from headrace.spark.sink.commit import discard_parcels

            assert query_id is not None
            discard_parcels(self._options, parcels, stage_topic=self._name(query_id))

    def _name(self, query_id: str) -> str:
        return f"{self._options.prefix}-{query_id}"


class BatchSink(DataSourceArrowWriter):
    """`write.format("headrace")`.

    At-least-once unless the option `guarantee` says otherwise, as Spark's Kafka connector. With
    exactly-once all rows become visible together, or none; with `sinkId` and `batchId` a write that
    is repeated adds nothing, which is what a `foreachBatch` needs. There the sink's name holds the
    query's id too, because a new checkpoint counts its batches from 0 again.
    """

    def __init__(
        self, options: Mapping[str, str], schema: "StructType", overwrite: bool = False
    ) -> None:
        if overwrite:
            raise InvalidArgument(
                'a topic cannot be overwritten: write with mode("append"), and delete its records '
                "first if that is meant"
            )
        self._options = read_sink_options(options, streaming=False)
        self._columns = SinkColumns(schema, self._options.topic)
        self._stage_topic = f"{self._options.prefix}-{uuid4()}"

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        if self._options.guarantee is SinkGuarantee.AT_LEAST_ONCE:
            return _send(self._options, self._columns, iterator)
        from headrace.spark.sink.task import pack

        return pack(
            self._options,
            self._columns,
            iterator,
            stage_topic=self._stage_topic,
            query_id=task_query_id(),
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.guarantee is SinkGuarantee.AT_LEAST_ONCE:
            return
        from headrace.spark.sink.commit import commit_parcels, delete_stage

        parcels = _parcels(messages)
        query_id = query_of(parcels)
        sink_id, batch_id = self._identity(query_id)
        commit_parcels(
            self._options,
            parcels,
            sink_id=sink_id,
            stage_topic=self._stage_topic,
            batch_id=batch_id,
            only_last_is_replayed=query_id is not None,
        )
        if any(each.staged for each in parcels):
            delete_stage(self._options, stage_topic=self._stage_topic)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.guarantee is SinkGuarantee.EXACTLY_ONCE:
            from headrace.spark.sink.commit import delete_stage

            # The task that failed may have staged something, and is not among the messages.
            delete_stage(self._options, stage_topic=self._stage_topic)

    def _identity(self, query_id: str | None) -> tuple[str, int | None]:
        """The name of the sink, and what its ledger calls this write."""
        if self._options.replay_id is None:
            return self._stage_topic, None
        sink_id, batch_id = self._options.replay_id
        name = f"{self._options.prefix}-{sink_id}"
        return (name if query_id is None else f"{name}-{query_id}"), batch_id


def _send(
    options: SinkOptions, columns: SinkColumns, rows: "Iterator[pa.RecordBatch]"
) -> TaskOutput:
    """At-least-once: a task writes its rows where they belong, and they are visible at once."""
    from headrace.spark.sink.at_least_once_task import send

    return send(options, columns, rows)


def _parcels(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutput]:
    return [each for each in messages if isinstance(each, TaskOutput)]
