"""A task's key-value state: a dictionary, and what a call has changed in it.

Theory of operation
-------------------
Spark keeps the state as a list of changes and a stamp. A worker keeps the dictionary of each task
in memory between batches; it is the one that Spark committed exactly if its stamp is Spark's. The
stamp is random, so that a batch which failed after it was written, and was done again elsewhere,
leaves no memory behind that passes for the committed one.

Rule 1: a call sees its own changes; a call that raises has made none (`rollback`).
Rule 2: what a batch changed is appended as one change; `None` for a key means that it is gone.
Rule 3: once the changes outweigh the state, the list is written anew with the state alone.
"""

import pickle
import secrets
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

_GONE = object()
# The list is written anew when it holds so many changes; reading it costs an exchange each.
_MAX_CHANGES = 64


class TaskState:
    """Storm's KeyValueState and Samza's KeyValueStore, for one task.

    Keys are hashable, keys and values pickle. A value that was changed in place is not noticed:
    put it again.
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
        """Everything there is, in no particular order."""
        for key in self.committed.keys() | self._batch.keys() | self._call.keys():
            value = self.get(key, _GONE)
            if value is not _GONE:
                yield key, value

    def range(self, start: Any, stop: Any) -> list[tuple[Any, Any]]:
        """What lies from `start` up to but not at `stop`, in the order of the keys."""
        return sorted(
            ((key, value) for key, value in self.items() if start <= key < stop),
            key=lambda item: item[0],
        )

    def __contains__(self, key: Hashable) -> bool:
        return self.get(key, _GONE) is not _GONE

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def accept(self) -> None:
        """The call succeeded."""
        self._batch.update(self._call)
        self._call.clear()

    def rollback(self) -> None:
        """The call raised."""
        self._call.clear()

    def take_changes(self) -> bytes | None:
        """What the batch changed, and make it part of the state; None if it is nothing."""
        if not self._batch:
            return None
        gone = [key for key, value in self._batch.items() if value is _GONE]
        put = {key: value for key, value in self._batch.items() if value is not _GONE}
        self._batch.clear()
        _apply(self.committed, put, gone)
        return pickle.dumps((put, gone), protocol=pickle.HIGHEST_PROTOCOL)

    def snapshot(self) -> bytes:
        """The whole state as one change."""
        return pickle.dumps((self.committed, []), protocol=pickle.HIGHEST_PROTOCOL)


class StateKeeper:
    """Brings a task's state from Spark and back, once a batch.

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
        # The memory may not hold what Spark does not: forget first, remember last.
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
