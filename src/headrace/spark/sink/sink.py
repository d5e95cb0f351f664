"""The sinks of Spark's format `headrace`: a stream's and a batch's.

Where each method runs (Spark makes new objects for each call, in Python processes that it may
reuse for other queries, so they hold only what pickles):

- the constructor: on the driver, before each micro-batch and again before each commit;
- `write`: in the tasks, one per partition of the rows. It may run twice for the same rows, at once
  or one after the other; the driver gets the output of one of the two;
- `commit` or `abort`: on the driver, when all tasks are done or one has failed for good.

Spark passes a micro-batch's number only to `commit`, and the query's id only to the tasks.
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
from headrace.spark.sink.staging_folder import StagingFolder
from headrace.spark.sink.task_output import TaskOutput, query_of, task_query_id
from headrace.spark.worker_memory import freeze_modules
from headrace.spark.worker_socket import AcknowledgingInput

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class StreamSink(AcknowledgingInput, DataSourceStreamArrowWriter):
    """`writeStream.format("headrace")`.

    Exactly-once unless the option `guarantee` says otherwise. The sink's name contains the query's
    id, which Spark stores in the checkpoint: a query that continues from its checkpoint continues
    with its sink, and one with a new checkpoint has a new sink.

    Args:
        overwrite: the output mode is "complete". As with Kafka's connector, the rows are appended,
            so that a compacted topic has the newest row of each key.
    """

    def __init__(
        self, options: Mapping[str, str], schema: "StructType", overwrite: bool = False
    ) -> None:
        self._options = read_sink_options(options, streaming=True)
        self._columns = SinkColumns(schema, self._options.topic, self._options.value)
        # Spark plans every micro-batch, and commits it, in processes that it keeps.
        freeze_modules()

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        if self._options.guarantee is SinkGuarantee.AT_LEAST_ONCE:
            return _write_at_least_once(self._options, self._columns, iterator)
        from headrace.spark.sink.task import SinkTask

        query_id = task_query_id()
        if query_id is None:
            raise HeadraceError(
                "Spark does not tell this task which query it belongs to, without which its rows "
                "cannot be written exactly once: set the option guarantee to at-least-once"
            )
        task = SinkTask(self._options, self._columns, self._name(query_id), query_id)
        return task.run(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        outputs = _outputs(messages)
        query_id = query_of(outputs)
        if query_id is None:
            return
        from headrace.spark.sink.commit import commit_outputs

        name = self._name(query_id)
        commit_outputs(self._options, outputs, sink_id=name, staging_topic=name, batch_id=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        outputs = _outputs(messages)
        for query_id in {each.query_id for each in outputs if each.in_topic}:
            from headrace.spark.sink.commit import discard_outputs

            assert query_id is not None
            discard_outputs(self._options, outputs, staging_topic=self._name(query_id))

    def _name(self, query_id: str) -> str:
        return f"{self._options.prefix}-{query_id}"


class BatchSink(AcknowledgingInput, DataSourceArrowWriter):
    """`write.format("headrace")`.

    At-least-once unless the option `guarantee` says otherwise, as Spark's Kafka connector is. With
    exactly-once all rows become visible together, or none. With `sinkId` and `batchId` a write that
    is repeated adds nothing, as a `foreachBatch` needs it; the sink's name then contains the
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
        self._columns = SinkColumns(schema, self._options.topic, self._options.value)
        self._staging_topic = f"{self._options.prefix}-{uuid4()}"
        is_once = self._options.guarantee is SinkGuarantee.EXACTLY_ONCE
        self._folder = StagingFolder.create() if is_once else None

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        if self._options.guarantee is SinkGuarantee.AT_LEAST_ONCE:
            return _write_at_least_once(self._options, self._columns, iterator)
        from headrace.spark.sink.task import SinkTask

        task = SinkTask(
            self._options,
            self._columns,
            self._staging_topic,
            task_query_id(),
            folder=self._folder,
        )
        return task.run(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.guarantee is SinkGuarantee.AT_LEAST_ONCE:
            return
        from headrace.spark.sink.commit import commit_outputs, delete_staging_topic

        outputs = _outputs(messages)
        query_id = query_of(outputs)
        sink_id, batch_id = self._identity(query_id)
        commit_outputs(
            self._options,
            outputs,
            sink_id=sink_id,
            staging_topic=self._staging_topic,
            batch_id=batch_id,
            only_last_is_replayed=query_id is not None,
        )
        if self._folder is not None:
            self._folder.delete()
        # The winner of two attempts may have a file, and the other, elsewhere, have used the topic.
        # Where rows depend on chance the winner may even be small. A copy of a task that Spark
        # began for speed, and that lost, is not noticed then.
        if any(each.in_topic or each.in_file is not None or each.attempt for each in outputs):
            delete_staging_topic(self._options, staging_topic=self._staging_topic)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.guarantee is SinkGuarantee.EXACTLY_ONCE:
            from headrace.spark.sink.commit import delete_staging_topic

            if self._folder is not None:
                self._folder.delete()
            # The task that failed may have staged batches, and is not among the messages.
            delete_staging_topic(self._options, staging_topic=self._staging_topic)

    def _identity(self, query_id: str | None) -> tuple[str, int | None]:
        """Return the name of the sink, and the number of this write in its ledger."""
        if self._options.replay_id is None:
            return self._staging_topic, None
        sink_id, batch_id = self._options.replay_id
        name = f"{self._options.prefix}-{sink_id}"
        return (name if query_id is None else f"{name}-{query_id}"), batch_id


def _write_at_least_once(
    options: SinkOptions, columns: SinkColumns, rows: "Iterator[pa.RecordBatch]"
) -> TaskOutput:
    """Write the rows of a task straight to their topics, where they are visible at once."""
    from headrace.spark.sink.at_least_once_task import AtLeastOnceTask

    return AtLeastOnceTask(options, columns).run(rows)


def _outputs(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutput]:
    return [each for each in messages if isinstance(each, TaskOutput)]
