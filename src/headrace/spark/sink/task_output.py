"""What a task returns to the driver: its rows as record batches, or where they are staged.

Rule 1: an output is the only effect of a task. Spark drops the output of a task that failed, and of
one of two that ran for the same rows, so such a task has written nothing.
Rule 2: a small output carries its batches to the driver, through Spark. A larger one would fill the
driver's memory and exceed spark.driver.maxResultSize: its batches wait in the staging topic, or in
a file on the driver's machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from headrace.model.ids import TopicPartition
from headrace.spark.sink.staging_folder import StagedFile

# Spark sends results below 1 MiB straight to the driver.
_CARRIED_MAX_BYTES: Final = 512 * 1024
_FULL_CARRIERS: Final = 512
_QUERY_ID: Final = "sql.streaming.queryId"


class CarriedBatch(NamedTuple):
    """A record batch and the partition it is for."""

    target: TopicPartition
    data: bytes


class StagedBatch(NamedTuple):
    """The partition a batch is for, and where in the staging topic the batch is."""

    target: TopicPartition
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class TaskOutput(WriterCommitMessage):
    """The rows of one task. The batches of one target are in the order of the rows.

    Attributes:
        query_id: of the stream that the task belongs to; it lives as long as its checkpoint does.
        record_count: the rows of all batches.
        in_file: the batches that wait in a file; they come before those in the staging topic.
        attempt: how many attempts at the same rows Spark began before this one.
    """

    query_id: str | None = None
    record_count: int = 0
    carried: list[CarriedBatch] = field(default_factory=list)
    in_topic: list[StagedBatch] = field(default_factory=list)
    in_file: StagedFile | None = None
    attempt: int = 0

    @property
    def topics(self) -> set[str]:
        """The topics that the rows are for."""
        in_file = self.in_file.batches if self.in_file is not None else ()
        return (
            {each.target.topic for each in self.carried}
            | {each.target.topic for each in self.in_topic}
            | {target.topic for target, _ in in_file}
        )


def carried_max_bytes(partition: int) -> int:
    """Return how many bytes of batches the task of a Spark partition carries to the driver.

    Spark passes a task its partition's number but not how many there are. So the first 512 tasks
    may carry 512 KiB each, and the share of later ones falls with the square of their number. The
    sum over any number of tasks is below 512 MiB, half of spark.driver.maxResultSize's default.
    """
    if partition < _FULL_CARRIERS:
        return _CARRIED_MAX_BYTES
    return _CARRIED_MAX_BYTES * _FULL_CARRIERS**2 // (partition + 1) ** 2


def task_partition() -> int:
    """Return the number of the Spark partition that this task works on."""
    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def task_attempt() -> int:
    """Return how many attempts at this task's rows Spark began before."""
    context = TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())


def task_query_id() -> str | None:
    """Return the id of the stream that this task belongs to, also inside a `foreachBatch`. Spark
    passes it to tasks only."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY_ID)


def query_of(outputs: Sequence[TaskOutput]) -> str | None:
    """Return the id of the stream whose tasks made these outputs."""
    return next((each.query_id for each in outputs if each.query_id is not None), None)
