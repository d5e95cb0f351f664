"""Runs a user's task: one object for each partition number, called message by message.

Rule 1: a task's messages come in the order of offsets of each partition, streams with bootstrap or
        a higher priority first.
Rule 2: what `process` sent, put and set during a call is kept if the call returns. If it raises,
        the object is thrown away: the next one begins where the state says.
Rule 3: everything that must agree (outputs, changelogs, offsets) leaves in the same call, and so is
        committed in the same transaction.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.runtime.work import Emit, Source, TaskContext, Work
from headrace.flow.samza.attribute import VERSION, TaskAttributes
from headrace.flow.samza.changelog import Restore, restore
from headrace.flow.samza.collector import MessageCollector, RecordSheet
from headrace.flow.samza.config import InputStream, JobConfig
from headrace.flow.samza.context import Context
from headrace.flow.samza.coordinator import TaskCoordinator
from headrace.flow.samza.envelope import IncomingMessageEnvelope, SystemStream
from headrace.flow.samza.serde import Serde
from headrace.flow.samza.store import KeyValueStore
from headrace.flow.samza.task import ClosableTask, InitableTask, StreamTask, WindowableTask

_ORDER = ("offset", "partition")
_COLUMNS = ("topic", "partition", "offset", "key", "value")


@dataclass(frozen=True, slots=True)
class Control:
    """The topics that a job keeps about itself; None: nobody made them, so nothing is written.

    Attributes:
        checkpoint: offsets, for a start without Spark's checkpoint.
        coordinator: what tasks ask of those who run them.
        restore: up to where changelogs are read by a task that has no state yet.
    """

    checkpoint: str | None = None
    coordinator: str | None = None
    restore: Restore = field(default_factory=Restore)


class TaskWork(Work):
    """One of these for each task and process; see `Work`."""

    stateful = True

    def __init__(self, config: JobConfig, control: Control) -> None:
        self._config = config
        self._control = control
        self._inputs = {str(each.stream): each for each in config.inputs}
        self._live: _Live | None = None

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
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

    def cleanup(self) -> None:
        live, self._live = self._live, None
        if live is not None and isinstance(live.task, ClosableTask):
            # Whatever it raises, what comes next is another task's, or an error to be told.
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
        if call.sheet.topics:
            emit(call.sheet.to_batch(), rows=call.sheet.rows)

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
        live.attributes.bring(state)
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
            known = self._inputs[f"{system_of(system)}.{topic}"]
            if known.broadcast is None:
                if partition != task:
                    raise _new_partition(partition, task + 1)
            elif partition not in known.broadcast:
                continue
            try:
                read_key, read_value = (
                    _read(known.key_serde, key),
                    _read(known.message_serde, value),
                )
            except Exception as error:
                if self._config.drop_unreadable:
                    continue
                raise ValueError(
                    f"{known.stream} has a message at {partition}/{offset} that its serde cannot"
                    f" read: {error}"
                ) from error
            yield (
                row,
                IncomingMessageEnvelope(
                    known.stream.system,
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
        ranked = sorted(names, key=lambda each: _rank(self._inputs[f"{system_of(system)}.{each}"]))
        ranks = np.array([ranked.index(each) for each in names], dtype=np.int64)
        by_topic = ranks[topics.indices.to_numpy(zero_copy_only=False)]
        keys = [batch.column(each).to_numpy(zero_copy_only=False) for each in _ORDER]
        return np.lexsort((*keys, by_topic))


class _Live:
    """The user's object in this process, and what belongs to it."""

    def __init__(self, config: JobConfig, task: int) -> None:
        self.task: StreamTask = config.task()
        self.stores = {
            each.name: KeyValueStore(
                each.name, each.key_serde, each.message_serde, each.changelog is not None
            )
            for each in config.stores
        }
        self.attributes = TaskAttributes(self.task, f"{config.task.__name__} (partition {task})")


class _Call:
    """One call of a task: what it may use, and what it leaves."""

    def __init__(
        self, live: _Live, config: JobConfig, control: Control, context: TaskContext
    ) -> None:
        self.task = live.task
        self.sheet = RecordSheet()
        serdes: Callable[[SystemStream], tuple[Serde, Serde]] = _Serdes(config)
        self.collector = MessageCollector(self.sheet, serdes, dropping=config.drop_unwritable)
        self.coordinator = TaskCoordinator()
        self._live = live
        self._config = config
        self._control = control
        self._context = context
        self._next: dict[tuple[str, int], int] = {}

    def checkpoint(self, batch: pa.RecordBatch, system: str) -> None:
        """Note the offsets behind a batch."""
        if self._control.checkpoint is None or not batch.num_rows:
            return
        places = pa.Table.from_batches([batch.select(["topic", "partition", "offset"])])
        last = places.group_by(["topic", "partition"]).aggregate([("offset", "max")])
        for each in last.to_pylist():
            stream = f"{system_of(system)}.{each['topic']}"
            self._next[stream, each["partition"]] = each["offset_max"] + 1

    def finish(self) -> None:
        live, task = self._live, self._context.task
        live.attributes.keep(self._context.state)
        row = self.collector.row
        for spec in self._config.stores:
            if spec.changelog is not None:
                for key, value in live.stores[spec.name].take_changes():
                    self.sheet.add(spec.changelog.stream, key, value, task, row)
        name = f"Partition {task}"
        for (stream, partition), offset in self._next.items():
            assert self._control.checkpoint is not None
            key_ = json.dumps({"task": name, "stream": stream, "partition": partition})
            value_ = json.dumps({"next": offset})
            self.sheet.add(self._control.checkpoint, key_.encode(), value_.encode(), 0, row)
        asked = self.coordinator.asked
        if asked is not None and self._control.coordinator is not None:
            said = json.dumps({"task": task, "shutdown": asked.value})
            self.sheet.add(self._control.coordinator, name.encode(), said.encode(), 0, row)


class _Serdes:
    """The serdes of a stream that a task writes to."""

    def __init__(self, config: JobConfig) -> None:
        self._config = config
        self._known: dict[SystemStream, tuple[Serde, Serde]] = {}

    def __call__(self, stream: SystemStream) -> tuple[Serde, Serde]:
        found = self._known.get(stream)
        if found is None:
            found = self._known[stream] = self._find(stream)
        return found

    def _find(self, stream: SystemStream) -> tuple[Serde, Serde]:
        brokers = self._config.brokers
        if stream.system not in brokers:
            raise Unrecoverable(
                f"a message was sent to {stream}, but there is no system {stream.system!r}: there"
                f" are {', '.join(brokers)}"
            )
        if brokers[stream.system] != brokers[self._config.target]:
            raise Unrecoverable(
                f"a message was sent to {stream}, but the job writes to {self._config.target}: what"
                " a batch writes is one transaction of one cluster; use a mirror"
            )
        serdes = self._config.serdes
        return serdes.get(str(stream)) or serdes[stream.system]


def spout_name(system: str, *, broadcast: bool = False) -> str:
    return f"{system}-broadcast" if broadcast else f"{system}-inputs"


def system_of(spout: str) -> str:
    return spout.rpartition("-")[0]


def choose_task(batch: pa.RecordBatch, tasks: int) -> Any:
    """The task of a message is that of its partition's number."""
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    if len(partitions) and partitions.max() >= tasks:
        raise _new_partition(partitions.max(), tasks)
    return partitions


def _new_partition(partition: int, tasks: int) -> Unrecoverable:
    return Unrecoverable(
        f"an input has got a partition {partition}, but the job has {tasks} tasks: start it again,"
        " and it goes on with a task for each partition"
    )


def _rank(stream: InputStream) -> tuple[bool, int, str]:
    return not stream.bootstrap, -stream.priority, stream.stream.stream


def _read(serde: Serde, data: bytes | None) -> Any:
    return None if data is None else serde.from_bytes(data)
