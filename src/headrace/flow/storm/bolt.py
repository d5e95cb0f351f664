"""Bolts: the classes and functions that a topology calls with its tuples."""

import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.builtin.aggregate_work import AggregateWork
from headrace.flow.runtime.builtin.each_work import EachWork


class Bolt:
    """Base class of bolts. Implement `execute`; the rest as needed.

    Spark sends the object to its workers pickled: make connections and models in `prepare`. A batch
    has all tuples that came for this task at once, as columns. If `execute` raises, the batch is
    tried again, then in parts. The tuples that raise alone go to the dead letters, and one more
    call has all the others, in place of what the parts emitted and put.

    Example:
        class Upper(Bolt):
            def execute(self, batch, emit):
                emit([pc.utf8_upper(batch["word"])])
    """

    def prepare(self, context: TaskContext) -> None:
        """Make connections and models. Called once per worker process and task, before the first
        batch; a bolt that runs at its feeder has one copy per process."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        raise NotImplementedError

    def tick(self, now_ms: int, emit: Emit) -> None:
        """Do what is due every `tick_seconds` of the declaration, also when no tuples come."""

    def cleanup(self) -> None:
        """Release what `prepare` made: the worker ends."""


class StatefulBolt(Bolt):
    """A bolt with a key-value state that is checkpointed with the batch and restored.

    `self.state` is there during `execute` and `tick`: get, put, delete, items, range. With a fields
    grouping, a task sees all tuples of its keys and no others.

    Example:
        class Count(StatefulBolt):
            def execute(self, batch, emit):
                counts = batch["word"].value_counts()
                ...
    """

    state: Any


class BoltWork(Work):
    """Runs a `Bolt`."""

    def __init__(self, bolt: Bolt) -> None:
        self.bolt = bolt

    def prepare(self, context: TaskContext) -> None:
        self.bolt.prepare(context)

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        if isinstance(self.bolt, StatefulBolt):
            self.bolt.state = context.state
        self.bolt.execute(batch, emit)

    def tick(self, now_ms: int, emit: Emit, context: TaskContext) -> None:
        if isinstance(self.bolt, StatefulBolt):
            self.bolt.state = context.state
        self.bolt.tick(now_ms, emit)

    def cleanup(self) -> None:
        self.bolt.cleanup()


class BatchFunctionWork(Work):
    """Runs a function `(batch, emit)` for each batch."""

    def __init__(self, function: Callable[[pa.RecordBatch, Emit], None]) -> None:
        self.function = function

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        self.function(batch, emit)


def work_of(bolt: Any, name: str, width: int) -> Work:
    """Return the `Work` that runs a user's bolt.

    Raises:
        FlowError: the object cannot be a bolt.
    """
    if isinstance(bolt, Work):
        return bolt
    if isinstance(bolt, Aggregate):
        return AggregateWork(bolt)
    if isinstance(bolt, Bolt):
        return BoltWork(bolt)
    if isinstance(bolt, type) and issubclass(bolt, Bolt):
        raise FlowError(f"the bolt {name} is the class {bolt.__name__}: give an object, {name}()")
    if not callable(bolt):
        raise FlowError(f"the bolt {name} is {bolt!r}: give a Bolt or a function")
    if _parameters(bolt)[-2:] == ["batch", "emit"]:
        return BatchFunctionWork(bolt)
    return EachWork(bolt, width=width)


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:
        return []  # some builtins, such as int, have no signature
