"""Calling a component with a batch: retry it, find the tuples that raise, and go on without them.

Rules
-----
Rule 1: a batch without bad tuples is one call. A call that raises is repeated, `tries` in all.
Rule 2: then the batch is called in halves, each over the state that the ones before it left, down
        to the tuples that raise alone. Those are given up.
Rule 3: the halves only find those tuples. What they did is rolled back, and one call has all that
        are left: a window judges by the whole batch which tuples are late, and a DRPC function
        finds all tuples of a request in one call.
Rule 4: if that call raises too, although no tuple of it raises alone, what the halves did stands.
        Tuples with the same values of the fields that group them are the last to be divided, so
        that a key that raises divides no other key.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.runtime.emission import Emission
from headrace.flow.runtime.route import hashes
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import TupleBatch

_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchCall:
    """Calls a component with one batch.

    Args:
        call: calls it with some of the tuples, and returns what it emitted.
        give_up: takes a tuple that raised, and what it raised; it may raise that.
        forget: drops what the component remembers of calls that were rolled back.
        state: its state, if it has one.
        tries: how often a call that raises is made.
        by_tuple: the component does each tuple on its own: what the halves did can stand.
    """

    call: Callable[[TupleBatch], Emission]
    give_up: Callable[[TupleBatch, Exception], None]
    forget: Callable[[], None]
    state: TaskState | None
    tries: int
    by_tuple: bool

    def run(self, batch: TupleBatch, keys: tuple[str, ...] = ()) -> list[Emission]:
        """Return what the calls emitted that stand, in their order.

        Args:
            keys: the fields whose equal values bring tuples to the same task.
        """
        done = self._try(batch, self.tries)
        if isinstance(done, Emission):
            return [done]
        if batch.num_rows == 1:
            self.give_up(batch, done)
            return []
        before = self._changes()
        units = _units(batch.columns, () if self.by_tuple else keys)
        parts: list[tuple[_Rows, Emission]] = []
        for half in _halves(np.arange(batch.num_rows), units):
            self._search(batch, half, units, parts)
        if self.by_tuple or len(parts) < 2:
            return [emission for _, emission in parts]
        in_parts = self._changes()
        self._return_to(before)
        rows = np.sort(np.concatenate([each for each, _ in parts]))
        done = self._try(batch.take(pa.array(rows)), self.tries)
        if isinstance(done, Emission):
            return [done]
        self._return_to(in_parts)
        return [emission for _, emission in parts]

    def _search(
        self, batch: TupleBatch, rows: _Rows, units: _Rows, parts: list[tuple[_Rows, Emission]]
    ) -> None:
        """Add to `parts` the calls that returned; see rule 2."""
        part = batch.take(pa.array(rows))
        done = self._try(part, 1)
        if isinstance(done, Emission):
            parts.append((rows, done))
        elif len(rows) == 1:
            self.give_up(part, done)
        else:
            for half in _halves(rows, units):
                self._search(batch, half, units, parts)

    def _try(self, batch: TupleBatch, tries: int) -> Emission | Exception:
        """Return what a call emitted, or what the last one raised."""
        failure: Exception | None = None
        for _ in range(tries):
            try:
                emission = self.call(batch)
            except Unrecoverable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
                if self.state is not None:
                    self.state.rollback()
                failure = error
            else:
                if self.state is not None:
                    self.state.accept()
                return emission
        assert failure is not None
        return failure

    def _changes(self) -> dict[Any, Any] | None:
        return None if self.state is None else self.state.changes()

    def _return_to(self, changes: dict[Any, Any] | None) -> None:
        if self.state is not None and changes is not None:
            self.state.return_to(changes)
        self.forget()


def _units(columns: pa.RecordBatch, keys: tuple[str, ...]) -> _Rows:
    """Return for each tuple the first row of those that stay together for longest."""
    if not keys:
        return np.arange(columns.num_rows)
    try:
        hashed = hashes(columns, keys)
    except pa.ArrowNotImplementedError:
        return np.arange(columns.num_rows)  # with one task, a key may be of any type
    _, first, unit = np.unique(hashed, return_index=True, return_inverse=True)
    return first[unit]


def _halves(rows: _Rows, units: _Rows) -> tuple[_Rows, _Rows]:
    """Divide rows between two units, or a single unit within."""
    mine = units[rows]
    present = np.unique(mine)
    if len(present) == 1:
        return rows[: len(rows) // 2], rows[len(rows) // 2 :]
    early = mine < present[len(present) // 2]
    return rows[early], rows[~early]
