"""Running the operators of one level of an application.

Rule 1: messages come in the order of their times, as far as the order of each partition allows, so
        that what two streams give does not depend on where Spark's batches end. Streams with
        bootstrap or a higher priority come first.
Rule 2: a message goes through all operators of its level before the next one, as in Samza.
Rule 3: the task of a message is the number of its partition, or that of its key behind
        `partition_by`; a higher level gets it in the task of the same number.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.client.write.partitioner import partition_of
from headrace.flow.error import Unrecoverable
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.samza.application.message import KV, pickled, unpickled
from headrace.flow.samza.application.operator import OperatorState, PartitionByOperator
from headrace.flow.samza.collector import MessageCollector, SentRecords
from headrace.flow.samza.config import JobConfig
from headrace.flow.samza.context import Context
from headrace.flow.samza.coordinator import RequestScope, TaskCoordinator
from headrace.flow.samza.input_record import new_partition, rank, read_pair, system_of
from headrace.flow.samza.shutdown_request import shutdown_request
from headrace.flow.samza.stream_serde import StreamSerdes

MESSAGE_FIELDS = Fields.parse("operator INT, port INT, at BIGINT, message BINARY")
_COLUMNS = ("topic", "partition", "offset", "key", "value")


def to_level(level: int, *, everyone: bool) -> str:
    """Return the stream that carries messages to another level: to one task, or to all."""
    return f"{'all' if everyone else 'to'}-{level}"


@dataclass(frozen=True, slots=True)
class LevelLayout:
    """Which operators run where.

    Attributes:
        levels: the level of each operator.
        readers: for each operator the number and the port of those that read it.
        tasks: of each level.
    """

    levels: tuple[int, ...]
    readers: tuple[tuple[tuple[int, int], ...], ...]
    tasks: tuple[int, ...]


class ApplicationWork(Work):
    """Runs one level; see `Work`.

    Args:
        coordinator_topic: where requests of sinks go; None: nowhere.
    """

    def __init__(
        self, config: JobConfig, layout: LevelLayout, level: int, coordinator_topic: str | None
    ) -> None:
        assert config.application is not None
        self.bolt = config.application.kind
        self._application = config.application
        self._config = config
        self._layout = layout
        self._level = level
        self._coordinator_topic = coordinator_topic
        self._inputs = {str(each.stream): each for each in config.inputs}

    def prepare(self, context: TaskContext) -> None:
        for function in self._functions():
            if hasattr(function, "init"):
                function.init(Context(self._config.texts, context.task, {}))

    def cleanup(self) -> None:
        for function in self._functions():
            if hasattr(function, "close"):
                function.close()

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        call = self._call(context)
        if self._level == 0:
            self._read_records(batch, call, source)
        else:
            self._read_messages(batch, call, source, context.task)
        self._finish(call, emit)

    def tick(self, now_ms: int, emit: Emit, context: TaskContext) -> None:
        call = self._call(context)
        call.task = context.task
        self._finish(call, emit)

    def _call(self, context: TaskContext) -> "LevelCall":
        return LevelCall(self._config, self._layout, self._level, context.state, context.now_ms)

    def _read_records(self, batch: pa.RecordBatch, call: "LevelCall", source: TupleSource) -> None:
        system = system_of(source.component)
        moments = batch.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False)
        at = moments.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        columns = {each: batch.column(each).to_pylist() for each in _COLUMNS}
        # Streams of the same rank are ordered by time, not by name.
        ranked = {each: rank(self._inputs[f"{system}.{each}"])[:2] for each in {*columns["topic"]}}
        places = {each: at for at, each in enumerate(sorted({*ranked.values()}))}
        ranks = np.array([places[ranked[each]] for each in columns["topic"]], dtype=np.int64)
        for row in message_order(at, source.origin, ranks).tolist():
            topic, partition, offset, key, value = (columns[each][row] for each in _COLUMNS)
            if partition >= self._layout.tasks[0]:
                raise new_partition(partition, self._layout.tasks[0])
            stream = self._inputs[f"{system}.{topic}"]
            try:
                pair = KV(*read_pair(stream, key, value, f"{partition}/{offset}"))
            except ValueError:
                if self._config.drop_unreadable:
                    continue
                raise
            call.begin(row, partition, int(at[row]))
            self._process(call, self._application.inputs[str(stream.stream)], pair, 0)

    def _read_messages(
        self, batch: pa.RecordBatch, call: "LevelCall", source: TupleSource, task: int
    ) -> None:
        at = batch.column("at").to_numpy(zero_copy_only=False)
        operators, ports, messages = (
            batch.column(each).to_pylist() for each in ("operator", "port", "message")
        )
        for row in message_order(at, source.origin).tolist():
            call.begin(row, task, int(at[row]))
            self._process(call, operators[row], unpickled(messages[row]), ports[row])

    def _process(self, call: "LevelCall", operator: int, message: Any, port: int) -> None:
        try:
            call.run(operator, message, port)
        except Unrecoverable:
            raise
        except Exception as error:
            if not self._config.ignored & {"*", *(each.__name__ for each in type(error).__mro__)}:
                raise
        call.note_requests()

    def _finish(self, call: "LevelCall", emit: Emit) -> None:
        call.finish()
        if self._coordinator_topic is not None:
            for task, scope in call.requests.items():
                key, value = shutdown_request(task, scope)
                call.sent.add(self._coordinator_topic, key, value, 0, call.collector.row)
        if call.sent.topics:
            emit(call.sent.to_batch(), rows=call.sent.rows)
        for (level, everyone), outbox in call.outboxes.items():
            emit(
                outbox.columns(),
                stream=to_level(level, everyone=everyone),
                rows=outbox.rows,
                task=None if everyone else outbox.tasks,
            )

    def _functions(self) -> Iterator[Any]:
        for operator, level in zip(
            self._application.graph.operators, self._layout.levels, strict=True
        ):
            if level == self._level:
                yield from operator.functions


@dataclass(slots=True)
class _Outbox:
    """Messages on their way to another level."""

    operators: list[int] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    at_ms: list[int] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def columns(self) -> list[list[Any]]:
        return [self.operators, self.ports, self.at_ms, self.messages]


class LevelCall:
    """One call of a level; see `OperatorCall`."""

    def __init__(
        self, config: JobConfig, layout: LevelLayout, level: int, state: Any, now_ms: int
    ) -> None:
        assert config.application is not None
        self._operators = config.application.graph.operators
        self._layout = layout
        self._level = level
        self._state = state
        self.now_ms = now_ms
        self.at_ms = now_ms
        self.task = 0
        self.scratch: dict[str, Any] = {}
        self.sent = SentRecords()
        self.collector = MessageCollector(
            self.sent, StreamSerdes(config), dropping=config.drop_unwritable
        )
        self.coordinator = TaskCoordinator()
        self.requests: dict[int, RequestScope] = {}
        self.outboxes: dict[tuple[int, bool], _Outbox] = {}

    def state(self, name: str) -> OperatorState:
        return OperatorState(self._state, name)

    def begin(self, row: int, task: int, at_ms: int) -> None:
        """Begin with the message of a row."""
        self.collector.row, self.task, self.at_ms = row, task, at_ms

    def run(self, operator: int, message: Any, port: int) -> None:
        """Let an operator have a message, and all behind it on this level what comes of it."""
        for each in self._operators[operator].apply(message, port, self):
            self._push(operator, each)

    def finish(self) -> None:
        """Let the operators of this level emit what is due, each after those that it reads."""
        for number, operator in enumerate(self._operators):
            if self._layout.levels[number] == self._level and operator.stateful:
                for message, at_ms in operator.due(self):
                    self.at_ms = at_ms
                    self._push(number, message)
        self.note_requests()

    def note_requests(self) -> None:
        """Remember what a sink asked of its coordinator."""
        scope = self.coordinator.shutdown_scope
        if scope is not None:
            self.requests[self.task] = scope
            self.coordinator.shutdown_scope = None

    def _push(self, operator: int, message: Any) -> None:
        for reader, port in self._layout.readers[operator]:
            level = self._layout.levels[reader]
            if level == self._level:
                self.run(reader, message, port)
            else:
                self._carry(operator, reader, port, level, message)

    def _carry(self, operator: int, reader: int, port: int, level: int, message: Any) -> None:
        source = self._operators[operator]
        everyone = source.moves and not isinstance(source, PartitionByOperator)
        task = self.task
        if isinstance(source, PartitionByOperator):
            task = partition_of(source.key_bytes(message), self._layout.tasks[level])
        outbox = self.outboxes.setdefault((level, everyone), _Outbox())
        outbox.operators.append(reader)
        outbox.ports.append(port)
        outbox.at_ms.append(self.at_ms)
        outbox.messages.append(pickled(message))
        outbox.tasks.append(task)
        outbox.rows.append(self.collector.row)


def message_order(
    at_ms: npt.NDArray[np.int64],
    origin: pa.RecordBatch,
    ranks: npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[np.int64]:
    """Return the rows of messages in the order in which they are processed; see rule 1.

    Args:
        origin: the record that each message comes from.
        ranks: what goes before the time.
    """
    rows = np.arange(len(at_ms))
    codes = origin.column(0).indices.fill_null(-1)
    partitions, offsets = (origin.column(each).fill_null(-1) for each in (1, 2))
    keys = [each.to_numpy(zero_copy_only=False) for each in (codes, partitions, offsets)]
    order = np.lexsort((rows, keys[2], keys[1], keys[0]))
    times = at_ms[order].copy()
    # A record that is older than one before it in its partition stays behind it.
    ends = np.flatnonzero(np.diff(keys[0][order]) | np.diff(keys[1][order])) + 1
    for first, last in zip([0, *ends], [*ends, len(times)], strict=True):
        times[first:last] = np.maximum.accumulate(times[first:last])
    if ranks is None:
        return order[np.argsort(times, kind="stable")]
    return order[np.lexsort((times, ranks[order]))]
