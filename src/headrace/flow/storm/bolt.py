"""Bolts: what a topology does with its tuples."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from headrace.flow.error import EmitError, FlowError
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.runtime.combiner import AggregateWork
from headrace.flow.runtime.work import Emit, Source, TaskContext, Work


class Bolt:
    """Implement `execute`; the rest as needed. The object travels to Spark's workers pickled: make
    connections and models in `prepare`.

    A batch has all tuples that came for this task at once, as columns. If `execute` raises, the
    batch is tried again, then in parts, and the tuples that raise alone go to the dead letters.

    Example:
        class Upper(Bolt):
            def execute(self, batch, emit):
                emit([pc.utf8_upper(batch["word"])])
    """

    def prepare(self, context: TaskContext) -> None:
        """Called once a task and worker process, before the first batch."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        raise NotImplementedError

    def tick(self, now_ms: int, emit: Emit) -> None:
        """Called every `tick_seconds` of the declaration, also when nothing flows."""

    def cleanup(self) -> None:
        """The worker ends."""


class StatefulBolt(Bolt):
    """A bolt with a key-value state that is checkpointed with the batch and restored.

    `self.state` is there during `execute` and `tick`: get, put, delete, items, range. With a fields
    grouping, a task sees all tuples of its keys and nobody else's.

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
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
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


class FunctionWork(Work):
    """Runs a function for each tuple: fields in, and out a tuple, several, or none.

    A value that is not a tuple stands for a tuple of one.
    """

    def __init__(self, function: Callable[..., Any], width: int) -> None:
        self.function = function
        self.width = width

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        function, width = self.function, self.width
        made: list[tuple[Any, ...]] = []
        rows: list[int] = []
        for row, values in enumerate(
            zip(*(each.to_pylist() for each in batch.columns), strict=True)
        ):
            before = len(made)
            made.extend(_tuples(function(*values)))
            rows.extend([row] * (len(made) - before))
        if not made:
            return
        for each in made:
            if len(each) != width:
                raise EmitError(
                    f"{context.component} declares {width} fields and gave {len(each)}: {each!r}"
                )
        emit(list(zip(*made, strict=True)), rows=rows)


class BatchFunctionWork(Work):
    """Runs a function `(batch, emit)` for each batch."""

    def __init__(self, function: Callable[[pa.RecordBatch, Emit], None]) -> None:
        self.function = function

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        self.function(batch, emit)


def work_of(bolt: Any, name: str, width: int) -> Work:
    """The runtime's view of what a user gave as a bolt.

    Raises:
        FlowError: it is none of what a bolt can be.
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
    return FunctionWork(bolt, width)


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:
        return []  # some builtins, such as int, do not tell


def _tuples(given: Any) -> Iterable[tuple[Any, ...]]:
    if given is None:
        return ()
    if isinstance(given, tuple):
        return (given,)
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        return ((given,),)
    return [each if isinstance(each, tuple) else (each,) for each in given]
