"""A task's key-value state: a dictionary, and what a call has changed in it.

Theory of operation
-------------------
Spark keeps the state as a list of changes and a stamp. A worker keeps the dictionary of each task
in memory between batches. That dictionary is the state that Spark committed if its stamp equals
Spark's. Stamps are random: a batch that failed after its stamp was written, and was repeated in
another worker, leaves a dictionary with a stamp that no longer matches.

Rule 1: a call sees its own changes; a call that raises has made none (`rollback`).
Rule 2: what a batch changed is appended as one change: the values put, and the keys deleted.
Rule 3: the list is replaced by the whole state as one change when the changes since the last such
        replacement are larger than that state was, or more than `_MAX_CHANGES`. A worker that has
        not had the task in the batch before reads the list: at most twice what the state was. The
        replacements write, on average, at most twice what the batches changed.
Rule 4: a value that can change in place is kept pickled, from `put` on, and every `get` returns
        another object. So nothing that a call does to it outlives a call that raises.
"""

import datetime
import decimal
import pickle
import secrets
import uuid
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from headrace.flow.error import Unrecoverable
from headrace.flow.runtime.state_memory import ChangeList, RememberedState, StateMemory

_GONE = object()
# Values of these types cannot change, so they are kept and returned as they are.
_UNCHANGEABLE = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
        *(decimal.Decimal, uuid.UUID),
    }
)
# A longer list is replaced by the whole state: reading costs one exchange with Spark per change.
_MAX_CHANGES = 64


class TaskState:
    """The key-value state of one task: Storm's KeyValueState.

    Keys are hashable; keys and values pickle. `get` returns a copy of a value that can change: what
    is changed in place is not saved, put it again.

    Args:
        committed: the state before the batch, as an earlier object kept it.
        checkpointed: False for a state that ends with its call: its values need not pickle, and are
            not copied.
    """

    def __init__(
        self, committed: dict[Hashable, Any] | None = None, *, checkpointed: bool = True
    ) -> None:
        self.committed: dict[Hashable, Any] = {} if committed is None else committed
        self._keep = _kept if checkpointed else _as_is
        self._batch: dict[Hashable, Any] = {}
        self._call: dict[Hashable, Any] = {}

    def get(self, key: Hashable, default: Any = None) -> Any:
        kept = self._find(key)
        return default if kept is _GONE else _value(kept)

    def get_all(self, keys: Iterable[Hashable], default: Any = None) -> list[Any]:
        return [self.get(key, default) for key in keys]

    def put(self, key: Hashable, value: Any) -> None:
        """Set the value of a key.

        Raises:
            Unrecoverable: the value does not pickle.
        """
        self._call[key] = self._keep(key, value)

    def put_all(self, items: Iterable[tuple[Hashable, Any]]) -> None:
        for key, value in items:
            self.put(key, value)

    def delete(self, key: Hashable) -> None:
        self._call[key] = _GONE

    def items(self) -> Iterator[tuple[Hashable, Any]]:
        """Yield every key and value, in no particular order."""
        for key in self.committed.keys() | self._batch.keys() | self._call.keys():
            kept = self._find(key)
            if kept is not _GONE:
                yield key, _value(kept)

    def keys(self) -> Iterator[Hashable]:
        """Yield every key, in no particular order. It copies no values."""
        for key in self.committed.keys() | self._batch.keys() | self._call.keys():
            if key in self:
                yield key

    def range(self, start: Any, stop: Any) -> list[tuple[Any, Any]]:
        """Return the items from `start` up to but not including `stop`, sorted by key."""
        return sorted(
            ((key, self.get(key)) for key in self.keys() if start <= key < stop),
            key=lambda item: item[0],
        )

    def __contains__(self, key: Hashable) -> bool:
        return self._find(key) is not _GONE

    def __len__(self) -> int:
        return sum(1 for _ in self.keys())

    def accept(self) -> None:
        """Make the changes of a call that returned part of the batch."""
        self._batch.update(self._call)
        self._call.clear()

    def rollback(self) -> None:
        """Drop the changes of a call that raised."""
        self._call.clear()

    def changes(self) -> dict[Any, Any]:
        """Return what the batch has changed so far, for `return_to`."""
        return dict(self._batch)

    def return_to(self, changes: dict[Any, Any]) -> None:
        """Make the batch's changes what they were when `changes` returned these."""
        self._call.clear()
        self._batch = dict(changes)

    def take_changes(self) -> bytes | None:
        """Make the batch's changes part of the state and return them; None if there are none."""
        if not self._batch:
            return None
        gone = [key for key, kept in self._batch.items() if kept is _GONE]
        put = {key: kept for key, kept in self._batch.items() if kept is not _GONE}
        self._batch.clear()
        _apply(self.committed, put, gone)
        return _change(put, gone)

    def snapshot(self) -> bytes:
        """Return the whole state as one change."""
        return _change(self.committed, [])

    def _find(self, key: Hashable) -> Any:
        for layer in (self._call, self._batch, self.committed):
            kept = layer.get(key, layer)
            if kept is not layer:
                return kept
        return _GONE


class StateKeeper:
    """Loads a task's state from Spark and saves it, once per batch.

    `stamp` and `changes` are Spark's ValueState and ListState, with one binary column each.
    """

    def __init__(self, stamp: Any, changes: Any, memory: StateMemory) -> None:
        self._stamp = stamp
        self._changes = changes
        self._memory = memory
        self._list = ChangeList()
        self._loaded: bytes | None = None

    def load(self, slot: int) -> TaskState:
        kept = self._stamp.get()
        self._loaded = stamp = None if kept is None else bytes(kept[0])
        remembered = self._memory.get(slot)
        if stamp is not None and remembered is not None and remembered.stamp == stamp:
            self._list = remembered.changes
            return TaskState(remembered.committed)
        self._memory.forget(slot)
        committed: dict[Hashable, Any] = {}
        self._list = ChangeList()
        if stamp is not None:
            for (change,) in self._changes.get():
                # Written by `TaskState` of this very program into its own checkpoint.
                put, gone, *pickled = pickle.loads(bytes(change))  # noqa: S301
                self._list = self._list.added(len(change))
                if pickled:
                    put.update((key, _Pickled(data)) for key, data in pickled[0].items())
                else:
                    # An earlier version kept every value as it was.
                    put = {key: _kept(key, value) for key, value in put.items()}
                _apply(committed, put, gone)
        return TaskState(committed)

    def save(self, slot: int, state: TaskState) -> None:
        # The memory must not hold what Spark does not: forget first, remember last.
        self._memory.forget(slot)
        change = state.take_changes()
        stamp = self._loaded
        if change is not None:
            longer = self._list.added(len(change))
            if longer.count > _MAX_CHANGES or longer.later_bytes > longer.first_bytes:
                whole = state.snapshot()
                self._changes.put([(whole,)])
                self._list = ChangeList().added(len(whole))
            else:
                self._changes.appendValue((change,))
                self._list = longer
            stamp = secrets.token_bytes(12)
            self._stamp.update((stamp,))
        if stamp is not None:
            self._memory.remember(slot, RememberedState(stamp, self._list, state.committed))


class _Pickled:
    """A value that can change, pickled."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def _kept(key: Hashable, value: Any) -> Any:
    """Return a value in the form in which a state keeps it."""
    if _cannot_change(value):
        return value
    try:
        return _Pickled(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
    except (TypeError, AttributeError, ValueError, RecursionError, pickle.PicklingError) as error:
        raise Unrecoverable(
            f"the value of {key!r} is a {type(value).__name__} that cannot be put into the state,"
            f" because values must pickle: {error}"
        ) from error


def _as_is(key: Hashable, value: Any) -> Any:
    return value


def _value(kept: Any) -> Any:
    # Pickled by `_kept` of this very program.
    return pickle.loads(kept.data) if type(kept) is _Pickled else kept  # noqa: S301


def _cannot_change(value: Any) -> bool:
    kind = type(value)
    return kind in _UNCHANGEABLE or (
        kind in (tuple, frozenset) and all(_cannot_change(each) for each in value)
    )


def _change(put: dict[Hashable, Any], gone: list[Hashable]) -> bytes:
    """Return a change as bytes: values as they are, deleted keys, pickled values."""
    pickled = {key: kept.data for key, kept in put.items() if type(kept) is _Pickled}
    plain = {key: kept for key, kept in put.items() if key not in pickled} if pickled else put
    return pickle.dumps((plain, gone, pickled), protocol=pickle.HIGHEST_PROTOCOL)


def _apply(state: dict[Hashable, Any], put: dict[Hashable, Any], gone: list[Hashable]) -> None:
    state.update(put)
    for key in gone:
        state.pop(key, None)
