"""A task's key-value state: a dictionary, and what a call has changed in it.

Theory of operation
-------------------
Spark keeps the state as a list of changes and a stamp. A worker keeps the dictionary of each task
in memory between batches. That dictionary is the state that Spark committed if its stamp equals
Spark's. Stamps are random: a batch that failed after its stamp was written, and was repeated in
another worker, leaves a dictionary with a stamp that no longer matches.

Rule 1: a call sees its own changes; a call that raises has made none (`rollback`).
Rule 2: what a batch changed is appended as one change: the values put, and the keys deleted.
Rule 3: past `_MAX_CHANGES` changes the list is replaced by the whole state as one change.
"""

import pickle
import secrets
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

_GONE = object()
# A longer list is replaced by the whole state: reading costs one exchange with Spark per change.
_MAX_CHANGES = 64


class TaskState:
    """The key-value state of one task: Storm's KeyValueState.

    Keys are hashable; keys and values pickle. A value that is changed in place is not saved: put it
    again.
    """

    def __init__(self, committed: dict[Hashable, Any] | None = None) -> None:
        self.committed: dict[Hashable, Any] = {} if committed is None else committed
        self._batch: dict[Hashable, Any] = {}
        self._call: dict[Hashable, Any] = {}

    def get(self, key: Hashable, default: Any = None) -> Any:
        for layer in (self._call, self._batch, self.committed):
            value = layer.get(key, layer)
            if value is not layer:
                return default if value is _GONE else value
        return default

    def get_all(self, keys: Iterable[Hashable], default: Any = None) -> list[Any]:
        return [self.get(key, default) for key in keys]

    def put(self, key: Hashable, value: Any) -> None:
        self._call[key] = value

    def put_all(self, items: Iterable[tuple[Hashable, Any]]) -> None:
        self._call.update(items)

    def delete(self, key: Hashable) -> None:
        self._call[key] = _GONE

    def items(self) -> Iterator[tuple[Hashable, Any]]:
        """Yield every key and value, in no particular order."""
        for key in self.committed.keys() | self._batch.keys() | self._call.keys():
            value = self.get(key, _GONE)
            if value is not _GONE:
                yield key, value

    def range(self, start: Any, stop: Any) -> list[tuple[Any, Any]]:
        """Return the items from `start` up to but not including `stop`, sorted by key."""
        return sorted(
            ((key, value) for key, value in self.items() if start <= key < stop),
            key=lambda item: item[0],
        )

    def __contains__(self, key: Hashable) -> bool:
        return self.get(key, _GONE) is not _GONE

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def accept(self) -> None:
        """Make the changes of a call that returned part of the batch."""
        self._batch.update(self._call)
        self._call.clear()

    def rollback(self) -> None:
        """Drop the changes of a call that raised."""
        self._call.clear()

    def take_changes(self) -> bytes | None:
        """Make the batch's changes part of the state and return them; None if there are none."""
        if not self._batch:
            return None
        gone = [key for key, value in self._batch.items() if value is _GONE]
        put = {key: value for key, value in self._batch.items() if value is not _GONE}
        self._batch.clear()
        _apply(self.committed, put, gone)
        return pickle.dumps((put, gone), protocol=pickle.HIGHEST_PROTOCOL)

    def snapshot(self) -> bytes:
        """Return the whole state as one change."""
        return pickle.dumps((self.committed, []), protocol=pickle.HIGHEST_PROTOCOL)


class StateKeeper:
    """Loads a task's state from Spark and saves it, once per batch.

    `stamp` and `changes` are Spark's ValueState and ListState, with one binary column each.
    """

    def __init__(self, stamp: Any, changes: Any, memory: dict[int, tuple[bytes, int, Any]]) -> None:
        self._stamp = stamp
        self._changes = changes
        self._memory = memory
        self._count = 0
        self._loaded: bytes | None = None

    def load(self, slot: int) -> TaskState:
        kept = self._stamp.get()
        self._loaded = stamp = None if kept is None else bytes(kept[0])
        remembered = self._memory.get(slot)
        if stamp is not None and remembered is not None and remembered[0] == stamp:
            _, self._count, committed = remembered
            return TaskState(committed)
        self._memory.pop(slot, None)
        committed = {}
        self._count = 0
        if stamp is not None:
            for (change,) in self._changes.get():
                # Written by `TaskState` of this very program into its own checkpoint.
                _apply(committed, *pickle.loads(bytes(change)))  # noqa: S301
                self._count += 1
        return TaskState(committed)

    def save(self, slot: int, state: TaskState) -> None:
        # The memory must not hold what Spark does not: forget first, remember last.
        self._memory.pop(slot, None)
        change = state.take_changes()
        stamp = self._loaded
        if change is not None:
            self._count += 1
            if self._count > _MAX_CHANGES:
                self._changes.put([(state.snapshot(),)])
                self._count = 1
            else:
                self._changes.appendValue((change,))
            stamp = secrets.token_bytes(12)
            self._stamp.update((stamp,))
        if stamp is not None:
            self._memory[slot] = stamp, self._count, state.committed


def _apply(state: dict[Hashable, Any], put: dict[Hashable, Any], gone: list[Hashable]) -> None:
    state.update(put)
    for key in gone:
        state.pop(key, None)
