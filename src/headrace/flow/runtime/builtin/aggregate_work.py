"""Aggregates whose totals are in a task's state, for plans that Spark cannot aggregate itself."""

import heapq
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.flow.plan.aggregate import Aggregate, Measure
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.builtin.sketch import estimate, sketch
from headrace.flow.runtime.route import hashes


class AggregateWork(Work):
    """Runs an `Aggregate`: groups a batch by key and merges each group into the key's state."""

    stateful = True

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        measures = list(self.aggregate.measures.values())
        keys, groups = _groups(batch, self.aggregate.by)
        columns = [_values(batch, each) for each in measures]
        totals: list[list[Any]] = [[] for _ in measures]
        for key, rows in zip(keys, groups, strict=True):
            kept = context.state.get(key) or [None] * len(measures)
            merged = [
                _merge(measure, before, column, rows)
                for measure, before, column in zip(measures, kept, columns, strict=True)
            ]
            context.state.put(key, merged)
            for total, measure, part in zip(totals, measures, merged, strict=True):
                total.append(_total(measure, part))
        named = list(zip(*keys, strict=True)) if self.aggregate.by else []
        emit([*map(list, named), *totals], rows=[int(rows[-1]) for rows in groups])


def _groups(
    batch: pa.RecordBatch, by: tuple[str, ...]
) -> tuple[list[tuple[Any, ...]], list[np.ndarray[Any, Any]]]:
    """Return the keys of a batch and for each the numbers of its rows, in their order."""
    if not by:
        return [()], [np.arange(batch.num_rows)]
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for name in by:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        count = max(1, len(encoded.dictionary))
        _, codes = np.unique(
            codes * count + encoded.indices.to_numpy(zero_copy_only=False), return_inverse=True
        )
    order = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[order])) + 1
    groups = np.split(order, bounds)
    firsts = batch.select(list(by)).take(pa.array([int(rows[0]) for rows in groups], pa.int64()))
    return list(zip(*(each.to_pylist() for each in firsts.columns), strict=True)), groups


def _values(batch: pa.RecordBatch, measure: Measure) -> Any:
    """Return the values that a measure reads, in the form that `_merge` takes."""
    if measure.field is None:
        return None
    if measure.function == "approx_distinct":
        valid = np.asarray(batch.column(measure.field).is_valid())
        return hashes(batch, (measure.field,)), valid
    return np.array([*batch.column(measure.field).to_pylist(), None], dtype=object)[:-1]


def _merge(measure: Measure, before: Any, column: Any, rows: np.ndarray[Any, Any]) -> Any:
    if measure.function == "count":
        return (before or 0) + len(rows)
    if measure.function == "approx_distinct":
        hashed, valid = column
        return sketch(hashed[rows[valid[rows]]], before)
    values = [each for each in column[rows] if each is not None]
    if not values:
        return before
    match measure.function:
        case "sum":
            return (before or 0) + sum(values)
        case "min":
            return min(values) if before is None else min(before, *values)
        case "max":
            return max(values) if before is None else max(before, *values)
        case "mean":
            total, count = before or (0.0, 0)
            return total + sum(values), count + len(values)
        case "top":
            return heapq.nlargest(measure.limit, [*(before or ()), *values])
        case _:
            return (before or frozenset()) | frozenset(values)


def _total(measure: Measure, part: Any) -> Any:
    match measure.function:
        case "mean":
            return None if part is None else part[0] / part[1]
        case "top":
            return [] if part is None else part
        case "distinct":
            return 0 if part is None else len(part)
        case "approx_distinct":
            return 0 if part is None else estimate(part)
        case _:
            return part
