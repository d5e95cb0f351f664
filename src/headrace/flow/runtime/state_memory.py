"""The states that a worker process keeps in memory between batches.

Spark calls a task in any of its worker processes. The one that had it before keeps a state that
is not asked for again, and nothing tells it so. So a state leaves the memory when the process has
worked on `_KEPT_BATCHES` batches without it. A task that comes back after that reads its state from
Spark again.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

# Enough for a task whose keys are missing from a few batches in a row.
_KEPT_BATCHES = 4


@dataclass(frozen=True, slots=True)
class ChangeList:
    """How long Spark's list of changes of a state is.

    Attributes:
        count: how many there are.
        first_bytes: the size of the first: the whole state, as it was then.
        later_bytes: the size of all others.
    """

    count: int = 0
    first_bytes: int = 0
    later_bytes: int = 0

    def added(self, size: int) -> "ChangeList":
        """Return the list with one more change."""
        if self.count == 0:
            return ChangeList(1, size)
        return ChangeList(self.count + 1, self.first_bytes, self.later_bytes + size)


class RememberedState(NamedTuple):
    """A task's state as of one batch.

    Attributes:
        stamp: the name of the batch's result in Spark's state; see `task_state`.
        changes: what Spark has of this state.
        committed: keys and values, as `TaskState` keeps them.
    """

    stamp: bytes
    changes: ChangeList
    committed: dict[Hashable, Any]


class StateMemory:
    """The remembered states of one run in one process, by slot."""

    def __init__(self) -> None:
        self._states: dict[int, RememberedState] = {}
        self._used_in: dict[int, int] = {}
        self._batch: str | None = None
        self._batch_count = 0

    def begin_batch(self, batch: str | None) -> None:
        """Note which batch the next calls belong to, and forget what was not used for long.

        Args:
            batch: Spark's number of the batch; None outside a stream.
        """
        if batch is None or batch == self._batch:
            return
        self._batch = batch
        self._batch_count += 1
        oldest = self._batch_count - _KEPT_BATCHES
        for slot in [slot for slot, used in self._used_in.items() if used < oldest]:
            self.forget(slot)

    def get(self, slot: int) -> RememberedState | None:
        return self._states.get(slot)

    def remember(self, slot: int, state: RememberedState) -> None:
        self._states[slot] = state
        self._used_in[slot] = self._batch_count

    def forget(self, slot: int) -> None:
        self._states.pop(slot, None)
        self._used_in.pop(slot, None)

    def clear(self) -> None:
        """Forget every state."""
        self._states.clear()
        self._used_in.clear()
