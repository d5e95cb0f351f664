"""The interface between a component and the runtime that calls it.

`storm`, `trident` and `samza` wrap what their users write in a `Work`.
"""

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
            feeder has no tasks of its own: this is then Spark's partition.
        state: its key-value state if it is stateful, otherwise None. Valid during a call only.
        inputs: the component and stream of each of its inputs.
        retries: how often a call that raised is repeated.
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
    """Sends tuples to the readers of a stream. `execute` may call it any number of times.

    Args:
        columns: tuples with the declared fields in their order: a RecordBatch, or a sequence of
            columns.
        rows: for each of them the row of the batch it was made from, so that a later failure can
            name its origin.
        task: for a direct grouping, the task of the reader: a number, or one per tuple.
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
    """Base class of what a component does. Implement `execute`; the rest as needed.

    The runtime calls `prepare` once per task and worker process, and `execute` once per batch of a
    stream, never two calls at a time. It repeats a batch that raises from a clean state: what the
    batch emitted and put before is dropped. A call that returned may be rolled back too, while the
    runtime looks for the tuples that raise.

    Attributes:
        by_tuple: what it does with a tuple does not depend on the others of the batch.
    """

    by_tuple = False

    def check_master(self, master: str) -> None:
        """Check that its tasks can run on a Spark master, before anything starts.

        Raises:
            FlowError: it keeps files on this machine, and the tasks would run on others.
        """

    def prepare(self, context: TaskContext) -> None:
        """Make what does not pickle: connections, models, caches."""

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: "TupleSource"
    ) -> None:
        raise NotImplementedError

    def tick(self, now_ms: int, emit: Emit, context: TaskContext) -> None:
        """Do what is due every `tick_seconds`, also when no tuples come."""

    def forget(self) -> None:
        """Drop what calls have left in this object, apart from caches: they were rolled back."""

    def cleanup(self) -> None:
        """Release what `prepare` made: the worker ends, or a newer run takes its place."""


@dataclass(frozen=True, slots=True)
class TupleSource:
    """The component and stream that a batch comes from, and the origin of each tuple."""

    component: str
    stream: str
    lazy_origin: pa.RecordBatch | Callable[[], pa.RecordBatch]

    @property
    def origin(self) -> pa.RecordBatch:
        origin = self.lazy_origin
        return origin() if callable(origin) else origin
