"""The state that an updater of `partition_persist` changes: values by key.

Rule 1: what an updater puts is written when it has returned. So one that raises changes nothing.
Rule 2: an updater sees the values before its batch, and its own. A batch that is repeated sees the
        same, if the state is opaque; a transactional state passes over what it has already.
"""

from collections.abc import Callable, Iterable
from typing import Any

from headrace.flow.error import EmitError
from headrace.flow.trident.kept_json import dump, load
from headrace.flow.trident.state import (
    Backing,
    Key,
    Mode,
    StateEntry,
    StateFields,
    entry_after,
    kept_before,
)


class MapState:
    """Trident's MapState. A key or value of one field is that field, of several it is a tuple."""

    def __init__(self, state_fields: StateFields) -> None:
        self._fields = state_fields
        self._new: dict[Key, tuple[Any, ...]] = {}

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        (value,) = self.multi_get([key])
        return value

    def multi_get(self, keys: Iterable[Any]) -> list[Any]:
        """Return the value of each key; None for a key that has none."""
        wanted = [self._key(each) for each in keys]
        unknown = [each for each in dict.fromkeys(wanted) if each not in self._new]
        found = {**dict(zip(unknown, self._stored(unknown), strict=True)), **self._new}
        return [self._single(found[each]) for each in wanted]

    def put(self, key: Any, value: Any) -> None:
        self._new[self._key(key)] = self._tuple(value, self._fields.value.names, "value")

    def multi_put(self, items: Iterable[tuple[Any, Any]]) -> None:
        for key, value in items:
            self.put(key, value)

    def update(self, key: Any, function: Callable[[Any], Any]) -> Any:
        """Replace a value by what a function of it returns, and return the new one.

        The function is called with None for a key that has no value.
        """
        value = function(self.get(key))
        self.put(key, value)
        return value

    def changes(self) -> dict[Key, tuple[Any, ...]]:
        """Return what was put, by key."""
        return self._new

    def _stored(self, keys: list[Key]) -> list[tuple[Any, ...] | None]:
        raise NotImplementedError

    def _key(self, key: Any) -> Key:
        checked = self._tuple(key, self._fields.key.names, "key")
        if None in checked:
            raise ValueError(f"a key of the state is {key!r}: its fields cannot be None")
        return checked

    def _tuple(self, given: Any, names: tuple[str, ...], what: str) -> tuple[Any, ...]:
        values = tuple(given) if len(names) > 1 and isinstance(given, tuple | list) else (given,)
        if len(values) != len(names):
            raise EmitError(
                f"a {what} of the state is {given!r}, but its fields are {', '.join(names)}"
            )
        return values

    def _single(self, value: tuple[Any, ...] | None) -> Any:
        return value[0] if value is not None and len(value) == 1 else value


class BackedMapState(MapState):
    """A state outside of Spark, during one transaction."""

    def __init__(self, backing: Backing, state_fields: StateFields, mode: Mode, txid: str) -> None:
        super().__init__(state_fields)
        self._backing = backing
        self._mode = mode
        self._txid = txid
        self._entries: dict[Key, StateEntry | None] = {}

    def write(self) -> None:
        """Write what was put; what this transaction has written before stays as its kind says."""
        self._read(list(self._new))
        changed = []
        for key, value in self._new.items():
            entry = self._entries[key]
            _, stored = kept_before(self._mode, entry, self._txid)
            if not stored:
                after = entry_after(self._mode, entry, self._txid, dump(value), value)
                changed.append((key, after))
        self._backing.multi_put(changed)

    def _stored(self, keys: list[Key]) -> list[tuple[Any, ...] | None]:
        self._read(keys)
        values: list[tuple[Any, ...] | None] = []
        for key in keys:
            kept, _ = kept_before(self._mode, self._entries[key], self._txid)
            values.append(None if kept is None else load(kept))
        return values

    def _read(self, keys: list[Key]) -> None:
        unread = [each for each in keys if each not in self._entries]
        if unread:
            self._entries |= dict(zip(unread, self._backing.multi_get(unread), strict=True))


class SparkMapState(MapState):
    """A state in Spark's checkpoint; rows are kept where queries look for them."""

    def __init__(self, state: Any, state_fields: StateFields, answer: str) -> None:
        super().__init__(state_fields)
        self._state = state
        self._answer = answer

    def write(self) -> None:
        self._state.put_all(((self._answer, key), value) for key, value in self._new.items())

    def _stored(self, keys: list[Key]) -> list[tuple[Any, ...] | None]:
        return [self._state.get((self._answer, each)) for each in keys]
