"""What a task hands to the driver: its rows as record batches, or where they are staged.

Rule 1: a parcel is all that a task leaves behind. A task that failed, or one of two that ran for
the same rows, sends none that the driver gets to see, and so has written nothing.
Rule 2: a small parcel carries its batches along, through Spark. A larger one would fill the
driver's memory and run into spark.driver.maxResultSize: its batches wait in the staging topic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from headrace.model.ids import TopicPartition

CARRIED_MAX_BYTES: Final = 512 * 1024
"""Two thousand tasks may carry so much before Spark's default of 1 GiB for all of them is used up;
and Spark sends results below 1 MiB straight to the driver."""

_QUERY_ID: Final = "sql.streaming.queryId"


class CarriedBatch(NamedTuple):
    """A record batch, and where it goes."""

    target: TopicPartition
    data: bytes


class StagedBatch(NamedTuple):
    """Where a batch goes, and where in the staging topic it is."""

    target: TopicPartition
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class TaskOutput(WriterCommitMessage):
    """A task's rows. The batches of one target are in the order of the rows.

    Attributes:
        query_id: of the stream that the task belongs to; it lives as long as its checkpoint does.
        record_count: rows in all batches.
    """

    query_id: str | None = None
    record_count: int = 0
    carried: list[CarriedBatch] = field(default_factory=list)
    staged: list[StagedBatch] = field(default_factory=list)

    @property
    def topics(self) -> set[str]:
        carried = {each.target.topic for each in self.carried}
        return carried | {each.target.topic for each in self.staged}


def task_query_id() -> str | None:
    """The stream that this task works for, also inside a `foreachBatch`. Spark tells it to tasks,
    and to nobody else."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY_ID)


def query_of(parcels: Sequence[TaskOutput]) -> str | None:
    """The stream whose tasks packed these."""
    return next((each.query_id for each in parcels if each.query_id is not None), None)
