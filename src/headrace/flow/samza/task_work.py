"""Running a user's task: one object per partition number, called message by message.

Rule 1: a task's messages come in the order of offsets of each partition, streams with bootstrap or
        a higher priority first.
Rule 2: what `process` sent, put and set during a call is kept if the call returns. If it raises,
        or is rolled back, the object is dropped, and a new one is set up from the state.
Rule 3: outputs, changelogs and offsets must agree. They leave in the same call, and so are
        committed in the same transaction.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.samza.attribute import VERSION, TaskAttributes
from headrace.flow.samza.changelog import ChangelogRestore, restore
from headrace.flow.samza.collector import MessageCollector, SentRecords
from headrace.flow.samza.config import JobConfig
from headrace.flow.samza.context import Context
from headrace.flow.samza.coordinator import TaskCoordinator
from headrace.flow.samza.envelope import IncomingMessageEnvelope
from headrace.flow.samza.input_record import new_partition, rank, read_pair, system_of
from headrace.flow.samza.shutdown_request import shutdown_request
from headrace.flow.samza.store import KeyValueStore
from headrace.flow.samza.stream_serde import StreamSerdes
from headrace.flow.samza.task import ClosableTask, InitableTask, StreamTask, WindowableTask

_ORDER = ("offset", "partition")
_COLUMNS = ("topic", "partition", "offset", "key", "value")


@dataclass(frozen=True, slots=True)
class ControlTopics:
    """The job's own topics. None: the topic was not created, and nothing is written to it.

    Attributes:
        checkpoint: the topic for offsets, for a start without Spark's checkpoint.
        coordinator: the topic for shutdown requests of tasks.
        restore: the changelogs for a task that has no state yet.
    """

    checkpoint: str | None = None
    coordinator: str | None = None
    restore: ChangelogRestore = field(default_factory=ChangelogRestore)


class TaskWork(Work):
    """Runs one task in one process; see `Work`.

    Attributes:
        bolt: the user's class, which the graph of the flow names.
    """

    stateful = True

    def __init__(self, config: JobConfig, control: ControlTopics) -> None:
        assert config.task is not None
        self.bolt = config.task
        self._config = config
        self._control = control
        self._inputs = {str(each.stream): each for each in config.inputs}
        self._live: _Live | None = None

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        with self._call(emit, context) as call:
            call.checkpoint(batch, source.component)
            for row, envelope in self._envelopes(batch, source.component, context.task):
                call.collector.row = row
                self._process(call, envelope)

    def tick(self, now_ms: int, emit: Emit, context: TaskContext) -> None:
        with self._call(emit, context) as call:
            if isinstance(call.task, WindowableTask):
                call.task.window(call.collector, call.coordinator)

    def forget(self) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        live, self._live = self._live, None
        if live is not None and isinstance(live.task, ClosableTask):
            # What it raises is dropped: it must not hide the error that ended the task.
            with contextlib.suppress(Exception):
                live.task.close()

    @contextlib.contextmanager
    def _call(self, emit: Emit, context: TaskContext) -> Iterator["_Call"]:
        live = self._ready(context)
        call = _Call(live, self._config, self._control, context)
        try:
            yield call
            call.finish()
        except BaseException:
            self.cleanup()
            raise
        if call.sent.topics:
            emit(call.sent.to_batch(), rows=call.sent.rows)

    def _ready(self, context: TaskContext) -> "_Live":
        state, live = context.state, self._live
        if live is None:
            live = _Live(self._config, context.task)
        fresh = VERSION not in state
        for store in live.stores.values():
            store.bind(state)
        if fresh:
            restore(self._control.restore, context.task, live.stores)
        if self._live is None and isinstance(live.task, InitableTask):
            live.task.init(Context(self._config.texts, context.task, live.stores))
        live.attributes.load(state)
        self._live = live
        return live

    def _process(self, call: "_Call", envelope: IncomingMessageEnvelope) -> None:
        try:
            call.task.process(envelope, call.collector, call.coordinator)
        except Unrecoverable:
            raise
        except Exception as error:
            if not self._config.ignored & {"*", *(each.__name__ for each in type(error).__mro__)}:
                raise

    def _envelopes(
        self, batch: pa.RecordBatch, system: str, task: int
    ) -> Iterator[tuple[int, IncomingMessageEnvelope]]:
        order = self._order(batch, system)
        ordered = batch.take(pa.array(order))
        columns = {each: ordered.column(each).to_pylist() for each in _COLUMNS}
        moments = ordered.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False)
        for row, topic, partition, offset, key, value, at in zip(
            order.tolist(),
            columns["topic"],
            columns["partition"],
            columns["offset"],
            columns["key"],
            columns["value"],
            moments.cast(pa.int64()).to_pylist(),
            strict=True,
        ):
            stream = self._inputs[f"{system_of(system)}.{topic}"]
            if stream.broadcast is None:
                if partition != task:
                    raise new_partition(partition, task + 1)
            elif partition not in stream.broadcast:
                continue
            try:
                read_key, read_value = read_pair(stream, key, value, f"{partition}/{offset}")
            except ValueError:
                if self._config.drop_unreadable:
                    continue
                raise
            yield (
                row,
                IncomingMessageEnvelope(
                    stream.stream.system,
                    topic,
                    partition,
                    offset,
                    read_key,
                    read_value,
                    -1 if at is None else at,
                ),
            )

    def _order(self, batch: pa.RecordBatch, system: str) -> "np.ndarray[Any, Any]":
        topics = batch.column("topic").dictionary_encode()
        names = topics.dictionary.to_pylist()
        ranked = sorted(names, key=lambda each: rank(self._inputs[f"{system_of(system)}.{each}"]))
        ranks = np.array([ranked.index(each) for each in names], dtype=np.int64)
        by_topic = ranks[topics.indices.to_numpy(zero_copy_only=False)]
        keys = [batch.column(each).to_numpy(zero_copy_only=False) for each in _ORDER]
        return np.lexsort((*keys, by_topic))


class _Live:
    """The user's object in this process, its stores and its attributes."""

    def __init__(self, config: JobConfig, task: int) -> None:
        assert config.task is not None
        self.task: StreamTask = config.task()
        self.stores = {
            each.name: KeyValueStore(
                each.name, each.key_serde, each.message_serde, each.changelog is not None
            )
            for each in config.stores
        }
        self.attributes = TaskAttributes(self.task, f"{config.task.__name__} (partition {task})")


class _Call:
    """One call of a task: what it is called with, and the records that it leaves."""

    def __init__(
        self, live: _Live, config: JobConfig, control: ControlTopics, context: TaskContext
    ) -> None:
        self.task = live.task
        self.sent = SentRecords()
        self.collector = MessageCollector(
            self.sent, StreamSerdes(config), dropping=config.drop_unwritable
        )
        self.coordinator = TaskCoordinator()
        self._live = live
        self._config = config
        self._control = control
        self._context = context
        self._next: dict[tuple[str, int], int] = {}

    def checkpoint(self, batch: pa.RecordBatch, system: str) -> None:
        """Remember the offsets behind a batch, for the checkpoint topic."""
        if self._control.checkpoint is None or not batch.num_rows:
            return
        offsets = pa.Table.from_batches([batch.select(["topic", "partition", "offset"])])
        last = offsets.group_by(["topic", "partition"]).aggregate([("offset", "max")])
        for each in last.to_pylist():
            stream = f"{system_of(system)}.{each['topic']}"
            self._next[stream, each["partition"]] = each["offset_max"] + 1

    def finish(self) -> None:
        """Save attributes, and add the records of changelogs, offsets and requests."""
        live, task = self._live, self._context.task
        live.attributes.save(self._context.state)
        row = self.collector.row
        for spec in self._config.stores:
            if spec.changelog is not None:
                for key, value in live.stores[spec.name].take_changes():
                    self.sent.add(spec.changelog.stream, key, value, task, row)
        name = f"Partition {task}"
        for (stream, partition), offset in self._next.items():
            assert self._control.checkpoint is not None
            key_ = json.dumps({"task": name, "stream": stream, "partition": partition})
            value_ = json.dumps({"next": offset})
            self.sent.add(self._control.checkpoint, key_.encode(), value_.encode(), 0, row)
        scope = self.coordinator.shutdown_scope
        if scope is not None and self._control.coordinator is not None:
            key, request = shutdown_request(task, scope)
            self.sent.add(self._control.coordinator, key, request, 0, row)
