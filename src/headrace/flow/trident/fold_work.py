"""Folding tuples, key by key, into a state.

With Spark's state the fold is a persistent aggregate. With an empty state per call it is an
aggregate of the batch. With the state that `persist_work` reads from a database it is one of the
database.
"""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.flow.error import EmitError
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import TupleBatch
from headrace.flow.runtime.tuple_value import returned_tuples, rows_of
from headrace.flow.trident.aggregator import (
    Aggregator,
    AnyAggregator,
    CombinerAggregator,
    ReducerAggregator,
)

_NOTHING = object()
ANSWER = "answer"
"""What the keys of answers to queries begin with, in Spark's state."""


class FoldWork(Work):
    """Runs a user's aggregator.

    A tuple that makes it raise becomes a dead letter; the others of its batch are folded, once.

    Args:
        by: the fields of the key.
        inputs: the fields that the aggregator is called with.
        width: how many fields it returns.
    """

    stateful = True

    def __init__(
        self, aggregator: AnyAggregator, by: tuple[str, ...], inputs: tuple[str, ...], width: int
    ) -> None:
        self.aggregator = aggregator
        self.by = by
        self.inputs = inputs
        self.width = width

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        folded: dict[tuple[Any, ...], Any] = {}
        last: dict[tuple[Any, ...], int] = {}
        pairs = zip(rows_of(batch, self.by), rows_of(batch, self.inputs), strict=True)
        for row, (key, values) in enumerate(pairs):
            before = folded.get(key, _NOTHING)
            if before is _NOTHING:
                before = context.state.get(key, _NOTHING)
            try:
                folded[key] = self._fold(before, values)
            except Exception as error:
                dead_letter = getattr(emit, "dead_letter", None)
                if dead_letter is None:
                    raise
                dead_letter(TupleBatch(batch.slice(row, 1), source.origin.slice(row, 1)), error)
            else:
                last[key] = row
        context.state.put_all(folded.items())
        self._emit(folded, last, emit, context)

    def _fold(self, before: Any, values: tuple[Any, ...]) -> Any:
        aggregator = self.aggregator
        if isinstance(aggregator, CombinerAggregator):
            value = aggregator.init(*values)
            return value if before is _NOTHING else aggregator.combine(before, value)
        begun = aggregator.init() if before is _NOTHING else before
        if isinstance(aggregator, ReducerAggregator):
            return aggregator.reduce(begun, *values)
        return aggregator.aggregate(begun, *values)

    def _emit(
        self, folded: dict[Any, Any], last: dict[Any, int], emit: Emit, context: TaskContext
    ) -> None:
        results: list[tuple[Any, ...]] = []
        rows: list[int] = []
        for key, value in folded.items():
            for each in self._results(value):
                if len(each) != self.width:
                    raise EmitError(
                        f"{context.component} declares {self.width} fields of its result and gave"
                        f" {len(each)}: {each!r}"
                    )
                results.append((*key, *each))
                rows.append(last[key])
        if results:
            emit(list(map(list, zip(*results, strict=True))), rows=rows)

    def _results(self, value: Any) -> Any:
        if isinstance(self.aggregator, Aggregator):
            return returned_tuples(self.aggregator.complete(value))
        result = self.aggregator.result(value)
        return (result if isinstance(result, tuple) else (result,),)


class BatchFoldWork(Work):
    """Runs a fold with an empty state for each batch."""

    def __init__(self, fold: Work) -> None:
        self.fold = fold

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        self.fold.execute(
            batch, emit, replace(context, state=TaskState(checkpointed=False)), source
        )


class QueryableWork(Work):
    """A fold in Spark's state that answers queries.

    A query sees the totals of its own batch, because the fold runs first.

    Args:
        queries: for each component and stream that asks, the stream of the answers and the fields
            with the key.
    """

    stateful = True

    def __init__(
        self, fold: Work, queries: dict[tuple[str, str], tuple[str, tuple[str, ...]]]
    ) -> None:
        self.fold = fold
        self.queries = queries

    def execute(
        self, batch: pa.RecordBatch, emit: Any, context: TaskContext, source: TupleSource
    ) -> None:
        query = self.queries.get((source.component, source.stream))
        if query is None:
            keeps_answers = getattr(self.fold, "keeps_answers", False)
            run = self.fold.execute if keeps_answers else self._fold
            run(batch, emit, context, source)
            return
        stream, names = query
        empty = (None,) * (len(emit.outputs[stream]) - batch.num_columns)
        answers = [context.state.get((ANSWER, key), empty) for key in rows_of(batch, names)]
        columns = map(list, zip(*answers, strict=True))
        emit([*batch.columns, *columns], stream=stream, rows=range(batch.num_rows))

    def _fold(self, batch: Any, emit: Any, context: TaskContext, source: TupleSource) -> None:
        """Fold, and keep the result of each key for queries."""
        key_width = len(self._by())

        def emit_and_keep(columns: Any, **options: Any) -> None:
            rows = columns.to_pylist() if hasattr(columns, "to_pylist") else None
            values = (
                [tuple(row.values()) for row in rows]
                if rows is not None
                else list(zip(*columns, strict=True))
            )
            context.state.put_all(
                ((ANSWER, each[:key_width]), tuple(each[key_width:])) for each in values
            )
            emit(columns, **options)

        emit_and_keep.dead_letter = emit.dead_letter  # type: ignore[attr-defined]
        self.fold.execute(batch, emit_and_keep, context, source)

    def _by(self) -> tuple[str, ...]:
        aggregate = getattr(self.fold, "aggregate", None)
        by: tuple[str, ...] = self.fold.by if aggregate is None else aggregate.by  # type: ignore[attr-defined]
        return by
