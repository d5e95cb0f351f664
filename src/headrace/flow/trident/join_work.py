"""Two streams joined within a batch, as Trident does it."""

from collections import defaultdict
from typing import Any

import pyarrow as pa

from headrace.flow.runtime.work import Emit, Source, TaskContext, Work
from headrace.flow.trident.operation import rows_of

SIDE = "join_side"


class SideWork(Work):
    """Puts both streams into one, so that the tuples of a key meet in one call.

    Args:
        left: the component and stream of the left side.
        columns: for each side the fields that its tuples have, in the order of the joined stream;
            None where it has none.
    """

    def __init__(
        self, left: tuple[str, str], columns: tuple[list[str | None], list[str | None]]
    ) -> None:
        self.left = left
        self.columns = columns

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        side = 0 if (source.component, source.stream) == self.left else 1
        nothing = pa.nulls(batch.num_rows)
        columns = [nothing if each is None else batch.column(each) for each in self.columns[side]]
        emit([[side] * batch.num_rows, *columns], rows=range(batch.num_rows))


class JoinWork(Work):
    """Joins what one batch has of each key.

    Args:
        keys, left, right: the fields of the key and of either side.
        outer: which sides are kept without a partner.
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
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        sides: tuple[defaultdict[Any, list[Any]], defaultdict[Any, list[Any]]]
        sides = defaultdict(list), defaultdict(list)
        names = (self.left, self.right)
        values = [list(rows_of(batch, each)) for each in names]
        of_side = batch.column(SIDE).to_pylist()
        for row, key in enumerate(rows_of(batch, self.keys)):
            side = of_side[row]
            sides[side][key].append((row, values[side][row]))
        made: list[tuple[Any, ...]] = []
        rows: list[int] = []
        empty: list[list[tuple[Any, Any]]]
        empty = [[(None, (None,) * len(each))] for each in names]
        for key in dict.fromkeys((*sides[0], *sides[1])):
            lefts, rights = sides[0].get(key), sides[1].get(key)
            if None in key:
                continue  # as in SQL, null is no key that meets another
            if (lefts is None and not self.outer[1]) or (rights is None and not self.outer[0]):
                continue
            for left_row, left in lefts or empty[0]:
                for right_row, right in rights or empty[1]:
                    made.append((*key, *left, *right))
                    rows.append(right_row if left_row is None else left_row)
        if made:
            emit(list(map(list, zip(*made, strict=True))), rows=rows)
