"""A task's key-value store, on the state that Spark checkpoints.

Rule 1: keys and values are kept as the bytes of their serdes, as in Samza's own stores. So changing
        a value after `put` does not change the store, and `range` is in the order of bytes.
Rule 2: with a changelog, the last change of a key in a call becomes one record; its value is null
        if the key was deleted. The records are committed with the batch.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.flow.samza.serde import Serde


class KeyValueStore:
    """Samza's KeyValueStore. Valid during `init`, `process` and `window`."""

    def __init__(self, name: str, key_serde: Serde, message_serde: Serde, logged: bool) -> None:
        self.name = name
        self._key_serde = key_serde
        self._message_serde = message_serde
        self._logged = logged
        self._state: Any = None
        self._changes: dict[bytes, bytes | None] = {}
        self._sorted: list[bytes] | None = None

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        kept = self._bound().get((self.name, self._key(key)))
        return None if kept is None else self._message_serde.from_bytes(kept)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of those keys that have one."""
        values = ((key, self.get(key)) for key in keys)
        return {key: value for key, value in values if value is not None}

    def put(self, key: Any, value: Any) -> None:
        """Store a value; None deletes the key, as in Samza."""
        if value is None:
            self.delete(key)
            return
        self.put_bytes(self._key(key), self._message_serde.to_bytes(value))

    def put_all(self, items: Iterable[tuple[Any, Any]]) -> None:
        for key, value in items:
            self.put(key, value)

    def delete(self, key: Any) -> None:
        self.put_bytes(self._key(key), None)

    def delete_all(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self.delete(key)

    def range(self, start: Any, stop: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the items from `start` up to but not including `stop`, sorted by key bytes."""
        return self._between(self._key(start), self._key(stop))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Yield all items, sorted by the keys' bytes."""
        return self._between(b"", None)

    def flush(self) -> None:
        """Do nothing: everything is committed with the batch."""

    # For `TaskWork`, which runs the task.

    def bind(self, state: Any) -> None:
        """Begin a call over this state."""
        self._state = state
        self._changes = {}
        self._sorted = None

    def put_bytes(self, key: bytes, value: bytes | None, *, logged: bool = True) -> None:
        state, state_key = self._bound(), (self.name, key)
        if self._sorted is not None:
            self._resort(key, there=state_key in state, stays=value is not None)
        if value is None:
            state.delete(state_key)
        else:
            state.put(state_key, value)
        if logged and self._logged:
            self._changes.pop(key, None)
            self._changes[key] = value

    def take_changes(self) -> list[tuple[bytes, bytes | None]]:
        """Return what the call changed, for the changelog, and forget it."""
        changes, self._changes = self._changes, {}
        return list(changes.items())

    def _between(self, start: bytes, stop: bytes | None) -> Iterator[tuple[Any, Any]]:
        keys = self._keys()
        first = bisect_left(keys, start)
        last = len(keys) if stop is None else bisect_left(keys, stop)
        # A copy of the keys: the caller may delete while it iterates.
        for key in keys[first:last]:
            value = self._state.get((self.name, key))
            if value is not None:
                yield self._key_serde.from_bytes(key), self._message_serde.from_bytes(value)

    def _keys(self) -> list[bytes]:
        if self._sorted is None:
            self._sorted = sorted(
                key[1]
                for key in self._bound().keys()  # noqa: SIM118 - a state is no dictionary
                if isinstance(key, tuple) and key[0] == self.name
            )
        return self._sorted

    def _resort(self, key: bytes, *, there: bool, stays: bool) -> None:
        assert self._sorted is not None
        if stays and not there:
            insort(self._sorted, key)
        elif there and not stays:
            del self._sorted[bisect_left(self._sorted, key)]

    def _key(self, key: Any) -> bytes:
        if key is None:
            raise ValueError(f"the store {self.name} was given None for a key")
        return self._key_serde.to_bytes(key)

    def _bound(self) -> Any:
        if self._state is None:
            raise RuntimeError(
                f"the store {self.name} is there during init, process and window only"
            )
        return self._state

    def __reduce__(self) -> Any:
        raise TypeError("a store belongs to its task")
