"""Joining two streams within a batch, as Trident does it."""

from collections import defaultdict
from typing import Any

import pyarrow as pa

from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.tuple_value import rows_of

SIDE = "join_side"


class SideWork(Work):
    """Merges both streams into one, so that one call has all tuples of a key.

    Args:
        left: the component and stream of the left side.
        columns: for each side the fields that its tuples have, in the order of the joined stream;
            None for a field that it does not have.
    """

    def __init__(
        self, left: tuple[str, str], columns: tuple[list[str | None], list[str | None]]
    ) -> None:
        self.left = left
        self.columns = columns

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        side = 0 if (source.component, source.stream) == self.left else 1
        nothing = pa.nulls(batch.num_rows)
        columns = [nothing if each is None else batch.column(each) for each in self.columns[side]]
        emit([[side] * batch.num_rows, *columns], rows=range(batch.num_rows))


class JoinWork(Work):
    """Joins the tuples of each key in a batch.

    Args:
        keys, left, right: the fields of the key and of either side.
        outer: for left and right, whether tuples without a partner are kept.
    """

    def __init__(
        self,
        keys: tuple[str, ...],
        left: tuple[str, ...],
        right: tuple[str, ...],
        outer: tuple[bool, bool],
    ) -> None:
        self.keys = keys
        self.left = left
        self.right = right
        self.outer = outer

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        sides: tuple[defaultdict[Any, list[Any]], defaultdict[Any, list[Any]]]
        sides = defaultdict(list), defaultdict(list)
        names = (self.left, self.right)
        values = [list(rows_of(batch, each)) for each in names]
        of_side = batch.column(SIDE).to_pylist()
        for row, key in enumerate(rows_of(batch, self.keys)):
            side = of_side[row]
            sides[side][key].append((row, values[side][row]))
        joined: list[tuple[Any, ...]] = []
        rows: list[int] = []
        empty: list[list[tuple[Any, Any]]]
        empty = [[(None, (None,) * len(each))] for each in names]
        for key in dict.fromkeys((*sides[0], *sides[1])):
            lefts, rights = sides[0].get(key), sides[1].get(key)
            if None in key:
                continue  # as in SQL, null equals no other key
            if (lefts is None and not self.outer[1]) or (rights is None and not self.outer[0]):
                continue
            for left_row, left in lefts or empty[0]:
                for right_row, right in rights or empty[1]:
                    joined.append((*key, *left, *right))
                    rows.append(right_row if left_row is None else left_row)
        if joined:
            emit(list(map(list, zip(*joined, strict=True))), rows=rows)
