"""The tuples that windows still need, in a task's state: one piece a batch, written once.

A piece is dropped as a whole when no window to come needs any tuple of it, so a batch writes what
came with it and no more, however long the window.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.flow.runtime.tuple_batch import TupleBatch, from_chunk, joined, to_chunk

_PIECES = "pieces"


@dataclass(frozen=True, slots=True)
class Piece:
    """`last` is the number or the time of its last tuple, `rows` how many it has."""

    number: int
    rows: int
    last: int


class WindowPieces:
    """Valid during one call; see `TaskState` for what a call that raises leaves."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._pieces: tuple[Piece, ...] = tuple(Piece(*each) for each in state.get(_PIECES, ()))

    def add(self, batch: TupleBatch, last: int) -> None:
        number = self._pieces[-1].number + 1 if self._pieces else 0
        self._pieces += (Piece(number, batch.num_rows, last),)
        self._state.put((_PIECES, number), to_chunk([batch]))
        self._note()

    def drop_before(self, first: int) -> None:
        """Forget the pieces that end before this number or time."""
        gone = [each for each in self._pieces if each.last < first]
        if not gone:
            return
        for each in gone:
            self._state.delete((_PIECES, each.number))
        self._pieces = tuple(each for each in self._pieces if each.last >= first)
        self._note()

    def load(self) -> TupleBatch | None:
        """All tuples in the order in which they came."""
        batches = [
            batch
            for each in self._pieces
            for batch in from_chunk(self._state.get((_PIECES, each.number)))
        ]
        return joined(batches) if batches else None

    def lasts(self) -> npt.NDArray[np.int64]:
        """For each of those tuples the `last` of its piece."""
        return np.repeat(
            np.array([each.last for each in self._pieces], dtype=np.int64),
            [each.rows for each in self._pieces],
        )

    def _note(self) -> None:
        self._state.put(_PIECES, [(each.number, each.rows, each.last) for each in self._pieces])
