"""The streams of an application. Every method adds an operator and returns the stream behind it."""

from dataclasses import dataclass
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.samza.application.graph import OperatorGraph
from headrace.flow.samza.application.message import KV
from headrace.flow.samza.application.operator import (
    BroadcastOperator,
    FilterOperator,
    FlatMapOperator,
    Function,
    JoinOperator,
    MapOperator,
    MergeOperator,
    Operator,
    PartitionByOperator,
    SendToOperator,
    SinkOperator,
    TableJoinOperator,
    TableWriteOperator,
)
from headrace.flow.samza.application.window import Window, WindowOperator
from headrace.flow.samza.serde import Serde, built_in


@dataclass(frozen=True, slots=True)
class OutputStream:
    """A topic that messages are sent to, made by `ApplicationDescriptor.output_stream`."""

    stream: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table in the state of the tasks, made by `ApplicationDescriptor.table`.

    Each task has the rows whose keys come to it.
    """

    name: str


class MessageStream:
    """A stream of messages. Several operators may begin with one stream.

    Functions are called with a message. An object with `__call__` may have `init(context)`, which
    is called once per task and worker process before the first message, and `close()`.

    Every operator may be given a `name`: it stands in messages, and state is kept under it.
    """

    def __init__(self, graph: OperatorGraph, number: int) -> None:
        self._graph = graph
        self._number = number

    def map(self, function: Function, *, name: str | None = None) -> "MessageStream":
        """Replace each message by what a function returns; None: by nothing."""
        return self._then(MapOperator(_callable(function, "map")), name)

    def flat_map(self, function: Function, *, name: str | None = None) -> "MessageStream":
        """Replace each message by the list of messages that a function returns."""
        return self._then(FlatMapOperator(_callable(function, "flat_map")), name)

    def filter(self, function: Function, *, name: str | None = None) -> "MessageStream":
        """Keep the messages for which a function returns true."""
        return self._then(FilterOperator(_callable(function, "filter")), name)

    def partition_by(
        self,
        key: Function,
        value: Function | None = None,
        *,
        serde: str | Serde | None = None,
        name: str | None = None,
    ) -> "MessageStream":
        """Send messages with the same key to the same task, as `KV(key, value)`.

        Args:
            key: a function of a message.
            value: a function of a message; None: the message itself.
            serde: how keys become the bytes that decide on the task, by Kafka's own hash. By
                default a text is UTF-8, bytes are themselves, and the rest is JSON.
        """
        moved = PartitionByOperator(
            _callable(key, "partition_by"),
            None if value is None else _callable(value, "partition_by"),
            _serde(serde),
        )
        return self._then(moved, name)

    def broadcast(self, *, name: str | None = None) -> "MessageStream":
        """Send each message to all tasks."""
        return self._then(BroadcastOperator(), name)

    def merge(self, *others: "MessageStream", name: str | None = None) -> "MessageStream":
        """Return the messages of this stream and others as one stream."""
        if not others:
            raise FlowError("merge takes one stream more, or several")
        return self._then(MergeOperator(), name, *others)

    def window(self, window: Window, *, name: str | None = None) -> "MessageStream":
        """Emit a `WindowPane` for each window that closes; `Windows` makes windows."""
        if not isinstance(window, Window):
            raise FlowError(
                f"window takes what Windows makes, such as Windows.tumbling_window(60), not"
                f" {window!r}"
            )
        return self._then(WindowOperator(window), name)

    def join(
        self,
        other: "MessageStream | Table",
        function: Function,
        *,
        key: Function | None = None,
        other_key: Function | None = None,
        within_seconds: float | None = None,
        name: str | None = None,
    ) -> "MessageStream":
        """Join with another stream, or with a table.

        With a stream: `function(message, other)` is called for a message and the last one of the
        other stream with the same key, if their times differ by `within_seconds` or less. The time
        of a message is the timestamp of its record.

        With a table: `function(message, row)` is called for each message; `row` is None if the
        table has nothing for its key.

        What the function returns is the joined message; None: there is none. Both sides must be in
        the same tasks: inputs with as many partitions each, or behind `partition_by`.

        Args:
            key: a function of a message; by default the key of a `KV`.
            other_key: the same of the other stream.
        """
        _callable(function, "join")
        mine = _key if key is None else _callable(key, "join")
        if isinstance(other, Table):
            if within_seconds is not None or other_key is not None:
                raise FlowError("a join with a table has neither within_seconds nor other_key")
            return self._then(TableJoinOperator(other.name, function, mine), name)
        if not isinstance(other, MessageStream):
            raise FlowError(f"join takes a stream or a table, not {other!r}")
        if within_seconds is None or within_seconds <= 0:
            raise FlowError(
                "a join of two streams needs within_seconds: how far apart the times of two"
                " messages may be"
            )
        theirs = _key if other_key is None else _callable(other_key, "join")
        within_ms = max(1, round(within_seconds * 1_000))
        joined = JoinOperator(function, (mine, theirs), within_ms=within_ms)
        return self._then(joined, name, other)

    def send_to(self, target: OutputStream | Table, *, name: str | None = None) -> None:
        """Write each message to a topic or a table.

        The key of a `KV` is the record's key; other messages have none. A table takes `KV` only,
        and a value of None deletes the key.
        """
        if isinstance(target, Table):
            self._then(TableWriteOperator(target.name), name)
        elif isinstance(target, OutputStream):
            self._then(SendToOperator(target.stream), name)
        else:
            raise FlowError(
                f"send_to takes an output or a table, not {target!r}: write"
                " app.output_stream('kafka.TOPIC')"
            )

    def sink(self, function: Function, *, name: str | None = None) -> None:
        """Call a function with each message, a `MessageCollector` and a `TaskCoordinator`."""
        self._then(SinkOperator(_callable(function, "sink")), name)

    def _then(
        self, operator: Operator, name: str | None, *others: "MessageStream"
    ) -> "MessageStream":
        for each in others:
            if not isinstance(each, MessageStream) or each._graph is not self._graph:
                raise FlowError(f"{each!r} is no stream of this application")
        feeders = (self._number, *(each._number for each in others))
        return MessageStream(self._graph, self._graph.add(operator, feeders, name))


def _callable(function: Any, who: str) -> Function:
    if not callable(function):
        raise FlowError(f"{who} takes a function of a message, not {function!r}")
    checked: Function = function
    return checked


def _key(message: Any) -> Any:
    if not isinstance(message, KV):
        raise TypeError(
            f"{message!r} has no key to join by: give key=, or join behind partition_by"
        )
    return message.key


def _serde(given: str | Serde | None) -> Serde | None:
    """Return a serde given by itself or by its short name.

    Raises:
        FlowError: there is no such serde.
    """
    if given is None or isinstance(given, Serde):
        return given
    serde = built_in(given)
    if serde is None:
        raise FlowError(f"there is no serde {given!r}: give its object, or string, json, long ...")
    return serde
