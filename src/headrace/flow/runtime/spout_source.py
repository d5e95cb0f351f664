"""A data source over a Python spout, which runs a plan's first stage in its tasks.

The spout's object lives in the Python process that Spark starts on the driver's machine for the
source, as long as the query runs. Its tuples travel to the tasks inside Spark's input partitions.
All methods of the spout are called in one thread: a connection to SQLite, for example, can be used
by no other.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Timer
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.flow.runtime.spout_offset import SpoutOffset
from headrace.flow.runtime.spout_task import SPOUT_NAME, SpoutTask, SpoutTaskSpec
from headrace.flow.runtime.stage_source import SealedStage, StageFunction
from headrace.spark.worker_socket import AcknowledgingInput

_CLOSE_SECONDS = 10.0
Shape = dict[str, Any]


class SpoutSource(DataSource):
    """Base of the classes that `spout_source` makes, one per spout.

    Attributes:
        spout: the pickled spout: processes that only plan do not unpickle it.
    """

    label: ClassVar[str]
    spout: ClassVar[bytes]
    place: ClassVar[SpoutTaskSpec]
    stage: ClassVar[StageFunction]
    output_ddl: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.label

    def schema(self) -> str:
        return self.output_ddl

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return SpoutReader(self.spout, self.place, type(self).stage)


def spout_source(
    label: str, spout: Any, place: SpoutTaskSpec, stage: StageFunction, output_ddl: str
) -> type[SpoutSource]:
    """Return the data source of a spout; register it under its label."""
    members: dict[str, Any] = {
        "label": label,
        "spout": cloudpickle.dumps(spout),  # type: ignore[no-untyped-call]
        "place": place,
        "stage": staticmethod(SealedStage.of(stage)),
        "output_ddl": output_ddl,
    }
    return type("SpoutSourceOfPlan", (SpoutSource,), members)


class TuplePartition(InputPartition):
    """Tuples on their way to a task, as an Arrow stream."""

    def __init__(self, tuples: bytes) -> None:
        super().__init__(tuples)


class SpoutReader(AcknowledgingInput, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Calls the spout on the driver, and the stage in tasks.

    The spout is opened by the first question for offsets: Spark makes readers in other processes
    too, which only plan.
    """

    def __init__(self, spout: bytes, place: SpoutTaskSpec, stage: StageFunction) -> None:
        self._pickled = spout
        self._place = place
        self._stage = stage
        self._task: SpoutTask | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._timer: Timer | None = None
        self._ends_when_idle = False
        self._ended = False

    def initialOffset(self) -> Shape:  # noqa: N802, Spark's name
        return SpoutOffset(self._place.context.component).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, Spark's name
        return ReadMaxRows(self._place.limits.max_pending)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, Spark's name
        self._ends_when_idle = True

    def latestOffset(self, start: Shape, limit: ReadLimit) -> Shape:  # noqa: N802, Spark's name
        """Ack the batch before, and return where the next one ends.

        Spark calls this when the batch that ended at `start` is done and its commit is on disk,
        also when there is nothing new.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._ended:
            return start
        end = self._run("next_batch", SpoutOffset.from_json(start))
        if end is None:
            self._ended = self._ends_when_idle
            return start
        self._watch_timeout()
        shape: Shape = end.to_json()
        return shape

    def partitions(self, start: Shape, end: Shape) -> list[InputPartition]:
        found: pa.RecordBatch | None = self._run("tuples", start["emitted"], end["emitted"])
        if found is None:
            return []
        name = {SPOUT_NAME: self._place.context.component.encode()}
        found = found.replace_schema_metadata(name)
        rows = -(-found.num_rows // self._place.tasks)
        return [
            TuplePartition(_to_bytes(found.slice(first, rows)))
            for first in range(0, found.num_rows, rows)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TuplePartition)
        with pa.ipc.open_stream(partition.value) as tuples:
            return self._stage(list(tuples))

    def commit(self, end: Shape) -> None:
        """Do nothing: Spark calls it late, when `latestOffset` has already acked."""

    def stop(self) -> None:
        """Close the spout: the query has ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None and self._task is not None:
            with suppress(TimeoutError):
                self._thread.submit(self._task.close).result(_CLOSE_SECONDS)
            self._thread.shutdown(wait=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the spout out: Spark pickles a reader for its tasks, which only call `read`."""
        return {**self.__dict__, "_pickled": b"", "_task": None, "_thread": None, "_timer": None}

    def _run(self, method: str, *arguments: Any) -> Any:
        """Call the task in the spout's thread."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="spout")
            self._task = self._thread.submit(self._opened).result()
        return self._thread.submit(getattr(self._task, method), *arguments).result()

    def _opened(self) -> SpoutTask:
        place = self._place
        spout = cloudpickle.loads(self._pickled)
        return SpoutTask(spout, place.context, place.fields, place.limits, place.failed)

    def _watch_timeout(self) -> None:
        seconds = self._place.limits.message_timeout_seconds
        thread, task = self._thread, self._task
        if seconds is None or thread is None or task is None:
            return

        def expire() -> None:
            with suppress(RuntimeError):  # the thread has ended
                thread.submit(task.expire)

        self._timer = Timer(seconds, expire)
        self._timer.daemon = True
        self._timer.start()


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
