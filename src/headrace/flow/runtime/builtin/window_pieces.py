"""The tuples that windows still need, in a task's state: one piece per batch, written once.

A piece is dropped as a whole when no later window needs any of its tuples. So a batch writes only
its own tuples, however long the window is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.flow.runtime.tuple_batch import TupleBatch, from_chunk, joined, to_chunk

_PIECES = "pieces"


@dataclass(frozen=True, slots=True)
class WindowPiece:
    """The tuples of one batch.

    Attributes:
        last: the number or the time of its last tuple.
        rows: how many tuples it has.
    """

    number: int
    rows: int
    last: int


class WindowPieces:
    """The pieces in a task's state, for one call; `TaskState` undoes a call that raises."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._pieces: tuple[WindowPiece, ...] = tuple(
            WindowPiece(*each) for each in state.get(_PIECES, ())
        )

    def add(self, batch: TupleBatch, last: int) -> None:
        number = self._pieces[-1].number + 1 if self._pieces else 0
        self._pieces += (WindowPiece(number, batch.num_rows, last),)
        self._state.put((_PIECES, number), to_chunk([batch]))
        self._save()

    def drop_before(self, first: int) -> None:
        """Delete the pieces that end before this number or time."""
        gone = [each for each in self._pieces if each.last < first]
        if not gone:
            return
        for each in gone:
            self._state.delete((_PIECES, each.number))
        self._pieces = tuple(each for each in self._pieces if each.last >= first)
        self._save()

    def load(self) -> TupleBatch | None:
        """Return all tuples in the order in which they came; None if there are none."""
        batches = [
            batch
            for each in self._pieces
            for batch in from_chunk(self._state.get((_PIECES, each.number)))
        ]
        return joined(batches) if batches else None

    def lasts(self) -> npt.NDArray[np.int64]:
        """Return for each of those tuples the `last` of its piece."""
        return np.repeat(
            np.array([each.last for each in self._pieces], dtype=np.int64),
            [each.rows for each in self._pieces],
        )

    def _save(self) -> None:
        self._state.put(_PIECES, [(each.number, each.rows, each.last) for each in self._pieces])
