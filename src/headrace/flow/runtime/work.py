"""What a component does, as the runtime calls it; front doors wrap their users' objects so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headrace.flow.plan.plan import DEFAULT_STREAM


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Where a component runs.

    Attributes:
        task: its number among the `tasks` of the component, from 0. A component that runs at its
            feeder has no tasks of its own: it is told Spark's partition.
        state: its key-value state if it is stateful, otherwise None. Valid during a call only.
        inputs: the component and stream of each of its inputs.
        retries: how often what raises is tried again.
        now_ms: the time of the batch.
    """

    plan: str
    component: str
    task: int
    tasks: int
    state: Any = None
    inputs: tuple[tuple[str, str], ...] = ()
    retries: int = 0
    now_ms: int = 0


class Emit(Protocol):
    """Given to `Work.execute`; may be called any number of times.

    Args:
        columns: tuples with the declared fields in their order: a RecordBatch, or a sequence of
            columns.
        rows: for each of them the row of the batch it was made from, so that a failure later on
            can be told with its origin.
        task: for a direct grouping, the task of the reader: a number, or one for each tuple.
    """

    def __call__(
        self,
        columns: Any,
        *,
        stream: str = DEFAULT_STREAM,
        rows: Any = None,
        task: Any = None,
    ) -> None: ...


class Work:
    """Implement `execute`; the rest as needed.

    `prepare` is called once a task and worker process, `execute` once for each batch of a stream,
    never at the same time as another call. A batch that raises is tried again from a clean state;
    what it emitted and put before is forgotten.
    """

    def prepare(self, context: TaskContext) -> None:
        """Make what does not travel: connections, models, caches."""

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: "Source"
    ) -> None:
        raise NotImplementedError

    def tick(self, now_ms: int, emit: Emit, context: TaskContext) -> None:
        """Called every `tick_seconds`, also when nothing flows."""

    def cleanup(self) -> None:
        """The worker ends, or another version of the program begins."""


@dataclass(frozen=True, slots=True)
class Source:
    """Which stream of which component a batch comes from, and each tuple's record."""

    component: str
    stream: str
    told_origin: pa.RecordBatch | Callable[[], pa.RecordBatch]

    @property
    def origin(self) -> pa.RecordBatch:
        told = self.told_origin
        return told() if callable(told) else told
