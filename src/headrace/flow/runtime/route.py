"""Choosing a task for each tuple, in columns."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from headrace.flow.error import EmitError
from headrace.flow.plan.grouping import (
    All,
    Custom,
    Direct,
    FieldsGrouping,
    Global,
    Grouping,
    PartialKey,
)
from headrace.flow.runtime.tuple_batch import TupleBatch

Tasks = npt.NDArray[np.int64]

# Keys of pandas' hash. They never change: they decide which task has the state of a key.
_FIRST_KEY = "headrace-first-0"
_SECOND_KEY = "headrace-second0"


def route(
    batch: TupleBatch,
    grouping: Grouping,
    tasks: int,
    *,
    turn: int,
    direct: Tasks | None = None,
    load: list[int] | None = None,
) -> Iterator[tuple[int, TupleBatch]]:
    """Divide a batch between the tasks of its reader; each part keeps the order.

    Args:
        turn: a number that differs from call to call, so that small batches do not all begin with
            the first task.
        direct: for each tuple the task its emitter named.
        load: for a partial key, how many tuples each task has got so far; it is updated.
    """
    if isinstance(grouping, All):
        for task in range(tasks):
            yield task, batch
        return
    if tasks == 1 or isinstance(grouping, Global):
        yield 0, batch
        return
    chosen = choose(batch.columns, grouping, tasks, turn=turn, direct=direct, load=load)
    order = np.argsort(chosen, kind="stable")
    bounds = np.searchsorted(chosen[order], np.arange(tasks + 1))
    for task in range(tasks):
        rows = order[bounds[task] : bounds[task + 1]]
        if len(rows):
            yield task, batch.take(pa.array(rows))


def choose(
    columns: pa.RecordBatch,
    grouping: Grouping,
    tasks: int,
    *,
    turn: int,
    direct: Tasks | None = None,
    load: list[int] | None = None,
) -> Tasks:
    """Return a task number for each row.

    Raises:
        EmitError: a direct stream without tasks, or a task that does not exist.
    """
    if isinstance(grouping, PartialKey):
        return _less_loaded(columns, grouping, tasks, [0] * tasks if load is None else load)
    if isinstance(grouping, FieldsGrouping):
        return (hashes(columns, grouping.names) % np.uint64(tasks)).astype(np.int64)
    if isinstance(grouping, Direct):
        if direct is None:
            raise EmitError("a direct grouping needs the task: emit(..., task=0)")
        return _checked(direct, tasks)
    if isinstance(grouping, Custom):
        return _checked(np.asarray(grouping.choose(columns, tasks), dtype=np.int64), tasks)
    return (np.arange(columns.num_rows, dtype=np.int64) + turn) % tasks


def hashes(
    columns: pa.RecordBatch, names: tuple[str, ...], key: str = _FIRST_KEY
) -> npt.NDArray[np.uint64]:
    """Return a hash of each row's values of these fields; the same on every machine and run."""
    total = np.zeros(columns.num_rows, dtype=np.uint64)
    for name in names:
        encoded = columns.column(name).dictionary_encode()
        values = _pandas(encoded.dictionary)
        if values.dtype == object:
            # Lists and maps do not hash; their text does.
            values = values.map(lambda each: each if isinstance(each, str | bytes) else str(each))
        of_values = pd.util.hash_array(values.to_numpy(), hash_key=key, categorize=False)
        indices = encoded.indices.fill_null(len(of_values)).to_numpy(zero_copy_only=False)
        with_null = np.append(of_values, np.uint64(0))
        total = total * np.uint64(31) + with_null[indices]
    return total


def _pandas(values: pa.Array) -> pd.Series:
    """Return values for hashing. Python has no date after the year 9999, but Arrow its text."""
    try:
        return values.to_pandas()
    except (ValueError, OverflowError):
        return values.cast(pa.string()).to_pandas()


def _less_loaded(
    columns: pa.RecordBatch, grouping: PartialKey, tasks: int, load: list[int]
) -> Tasks:
    """Return for each tuple the less loaded one of its key's two tasks."""
    first = (hashes(columns, grouping.names) % np.uint64(tasks)).astype(np.int64)
    # Never the first one: there are at least two tasks here.
    step = hashes(columns, grouping.names, _SECOND_KEY) % np.uint64(tasks - 1)
    second = (first + 1 + step.astype(np.int64)) % tasks
    chosen = np.empty(columns.num_rows, dtype=np.int64)
    for row, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        task = one if load[one] <= load[other] else other
        load[task] += 1
        chosen[row] = task
    return chosen


def _checked(chosen: Tasks, tasks: int) -> Tasks:
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() < tasks):
        raise EmitError(f"a task of {chosen.max()} was named, but there are {tasks}, from 0")
    return chosen
