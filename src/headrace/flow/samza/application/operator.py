"""Operators of an application. They have no attributes that change: what they keep is state.

Rule 1: `apply` is called message by message, in the order of a stream.
Rule 2: `due` is called at the end of every batch, and when the clock ticks. It returns what has
        become due, with its time.
Rule 3: an operator's state has the operator's name before every key, so an operator keeps its
        state when others are added to a program.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from headrace.flow.samza.application.message import (
    KV,
    key_bytes,
    pickled,
    state_key,
    unpickled,
)
from headrace.flow.samza.collector import MessageCollector
from headrace.flow.samza.coordinator import TaskCoordinator
from headrace.flow.samza.envelope import OutgoingMessageEnvelope, SystemStream
from headrace.flow.samza.serde import Serde

Function = Callable[..., Any]
_NEVER = -(2**62)


class OperatorState:
    """The part of a task's state that belongs to one operator or table."""

    def __init__(self, state: Any, name: str) -> None:
        self._state = state
        self._name = name

    def get(self, *key: Any, default: Any = None) -> Any:
        return self._state.get((self._name, *key), default)

    def put(self, *key: Any, value: Any) -> None:
        self._state.put((self._name, *key), value)

    def delete(self, *key: Any) -> None:
        self._state.delete((self._name, *key))

    def keys(self, kind: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the keys that begin with `kind`, without it."""
        for key in list(self._state.keys()):
            if isinstance(key, tuple) and len(key) > 2 and key[:2] == (self._name, kind):
                yield key[2:]


class OperatorCall(Protocol):
    """What an operator may use during a call.

    Attributes:
        now_ms: the time of the batch.
        at_ms: the time of the message: its record's timestamp.
        scratch: values that live as long as the call, by operator.
    """

    now_ms: int
    at_ms: int
    scratch: dict[str, Any]
    collector: MessageCollector
    coordinator: TaskCoordinator

    def state(self, name: str) -> OperatorState: ...


class Operator:
    """Base class of operators.

    Attributes:
        kind: what its name begins with, unless the user names it.
        stateful: whether it needs state, and so a task of its own for each partition.
        moves: whether the messages behind it are in other tasks than before.
        functions: the user's functions; one that has `init` or `close` has them called.
        table: the table that it reads or writes.
    """

    kind = "operator"
    stateful = False
    moves = False
    table: str | None = None

    def __init__(self, *functions: Function | None) -> None:
        self.name = ""
        self.functions = tuple(each for each in functions if each is not None)

    @property
    def clock_seconds(self) -> float | None:
        """How often `due` is called by the clock; None: after batches only."""
        return None

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        """Return the messages that come of one; `port` is the number of its input."""
        raise NotImplementedError

    def due(self, call: OperatorCall) -> Iterable[tuple[Any, int]]:
        return ()


class InputOperator(Operator):
    """The messages of an input."""

    kind = "input"

    def __init__(self, *, keyed: bool) -> None:
        super().__init__()
        self.keyed = keyed

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        return (message if self.keyed else message.value,)


class MapOperator(Operator):
    kind = "map"

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        mapped = self.functions[0](message)
        return () if mapped is None else (mapped,)


class FlatMapOperator(Operator):
    kind = "flat-map"

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        mapped = self.functions[0](message)
        if mapped is None:
            return ()
        if isinstance(mapped, str | bytes | dict | KV) or not isinstance(mapped, Iterable):
            raise TypeError(
                f"{self.name} returned {mapped!r}: a function of flat_map returns a list of"
                " messages"
            )
        return mapped


class FilterOperator(Operator):
    kind = "filter"

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        return (message,) if self.functions[0](message) else ()


class MergeOperator(Operator):
    kind = "merge"

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        return (message,)


class PartitionByOperator(Operator):
    """Makes a `KV` of each message, which goes to the task of its key."""

    kind = "partition-by"
    moves = True

    def __init__(self, key: Function, value: Function | None, serde: Serde | None) -> None:
        super().__init__(key, value)
        self.key = key
        self.value = value
        self.serde = serde

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        return (KV(self.key(message), message if self.value is None else self.value(message)),)

    def key_bytes(self, pair: KV) -> bytes:
        """Return the bytes that decide on the task."""
        if pair.key is None:
            raise TypeError(f"{self.name} has a message without a key: filter it out before")
        return key_bytes(pair.key) if self.serde is None else self.serde.to_bytes(pair.key)


class BroadcastOperator(Operator):
    """Sends each message to all tasks."""

    kind = "broadcast"
    moves = True

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        return (message,)


class SendToOperator(Operator):
    """Writes each message to a topic; the key of a `KV` is the record's key."""

    kind = "send-to"

    def __init__(self, stream: str) -> None:
        super().__init__()
        self.stream = stream
        self.system_stream: SystemStream | None = None

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        assert self.system_stream is not None
        key, value = message if isinstance(message, KV) else (None, message)
        call.collector.send(OutgoingMessageEnvelope(self.system_stream, value, key=key))
        return ()


class SinkOperator(Operator):
    """Calls a function with each message, a collector and a coordinator."""

    kind = "sink"

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        self.functions[0](message, call.collector, call.coordinator)
        return ()


class TableWriteOperator(Operator):
    """Puts the value of each `KV` into a table; a value of None deletes the key."""

    kind = "table-write"
    stateful = True

    def __init__(self, table: str) -> None:
        super().__init__()
        self.table = table

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        if not isinstance(message, KV):
            raise TypeError(
                f"the table {self.table} got {message!r}: it takes KV(key, value), such as"
                " partition_by makes"
            )
        key, state = state_key(message.key, f"the table {self.table}"), _rows(call, self.table)
        if message.value is None:
            state.delete("row", key)
        else:
            state.put("row", key, value=pickled(message.value))
        return ()


class TableJoinOperator(Operator):
    """Calls a function with each message and the table's value of its key, which may be None."""

    kind = "table-join"
    stateful = True

    def __init__(self, table: str, function: Function, key: Function) -> None:
        super().__init__(function, key)
        self.table = table
        self.function = function
        self.key = key

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        key = state_key(self.key(message), self.name)
        kept = _rows(call, self.table).get("row", key)
        joined = self.function(message, None if kept is None else unpickled(kept))
        return () if joined is None else (joined,)


class JoinOperator(Operator):
    """Joins two streams: a message with the last message of the other stream that has its key, if
    their times differ by no more than `within_ms`.

    Each side keeps the last message of each key. It is forgotten when messages came that are later
    by more than `within_ms`, but not before that time has passed on the clock too: the other stream
    may be behind.
    """

    kind = "join"
    stateful = True

    def __init__(
        self, function: Function, keys: tuple[Function, Function], *, within_ms: int
    ) -> None:
        super().__init__(function, *keys)
        self.function = function
        self.join_keys = keys
        self.within_ms = within_ms

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        state, key = call.state(self.name), state_key(self.join_keys[port](message), self.name)
        if key is None:
            return ()
        state.put("side", port, key, value=(call.at_ms, call.now_ms, pickled(message)))
        if call.at_ms > state.get("latest", default=_NEVER):
            state.put("latest", value=call.at_ms)
        other = state.get("side", 1 - port, key)
        if other is None or abs(other[0] - call.at_ms) > self.within_ms:
            return ()
        pair = (message, unpickled(other[2]))
        joined = self.function(*(pair if port == 0 else reversed(pair)))
        return () if joined is None else (joined,)

    def due(self, call: OperatorCall) -> Iterable[tuple[Any, int]]:
        state = call.state(self.name)
        latest = state.get("latest", default=_NEVER)
        # Not in every batch: it looks at all keys.
        if latest - state.get("cleaned", default=_NEVER) > self.within_ms // 10:
            state.put("cleaned", value=latest)
            for key in state.keys("side"):
                at_ms, put_ms, _ = state.get("side", *key)
                if max(at_ms - latest, put_ms - call.now_ms) < -self.within_ms:
                    state.delete("side", *key)
        return ()


def _rows(call: OperatorCall, table: str | None) -> OperatorState:
    return call.state(f"table {table}")
