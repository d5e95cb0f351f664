"""Calls the methods of a Python spout: collects batches of tuples, acks and fails them.

Rules
-----
Rule 1: Spark runs one batch after the other, and asks for the next one when the commit of the last
        one is on disk. So `next_batch(start)` says that the batch that ends at `start` is done: its
        ids are acked. The ids are in the offset, so this holds after a restart too.
Rule 2: a batch that did not end is never repeated: its tuples may be gone with the process that
        emitted them. A restart makes it empty (`execution.fail_unfinished`) and fails its ids.
        The spout has had no ack for them and emits them again: at least once.
Rule 3: a batch that is still running after the message timeout is failed, and not acked later.
Rule 4: a batch is bounded in tuples (max pending) and bytes. It also ends when `next_tuple` has
        emitted nothing, or after a tenth of a second.

Threads: all calls of the spout come from one thread, which is the caller's affair.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import TaskContext
from headrace.flow.runtime.failure_note import failure_note
from headrace.flow.runtime.spout_offset import MessageId, SpoutOffset

NUMBER: Final = "_number"
"""The column with a tuple's number among all that the spout has emitted."""

SPOUT_NAME: Final = b"spout"
"""The key in the metadata of a batch that has the name of the component."""

MOST_BATCH_BYTES: Final = 64 << 20
"""No batch may be larger: Spark sends its tuples to tasks in messages of at most 128 MiB."""

_COLLECT_SECONDS: Final = 0.1
_VALUE_BYTES: Final = 16


class SpoutCalls(Protocol):
    """The methods of a spout; see `headrace.flow.storm.PythonSpout`."""

    def open(self, context: TaskContext) -> None: ...
    def next_tuple(self, emit: Any) -> None: ...
    def ack(self, message_id: Any) -> None: ...
    def fail(self, message_id: Any) -> None: ...
    def activate(self) -> None: ...
    def deactivate(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SpoutLimits:
    """The bounds of a batch, and how long it may take."""

    max_pending: int = 10_000
    max_batch_bytes: int = 16 << 20
    message_timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SpoutTaskSpec:
    """Where a spout runs, and within which bounds.

    Attributes:
        tasks: into how many of Spark's tasks the tuples of a batch are divided.
        failed: ids of a batch that an earlier process did not finish.
    """

    context: TaskContext
    fields: Fields
    limits: SpoutLimits
    tasks: int = 1
    failed: tuple[MessageId, ...] = ()


@dataclass(slots=True)
class _Batch:
    """The tuples that Spark works on."""

    begin: int
    end: SpoutOffset
    tuples: pa.RecordBatch
    emitted_at: float
    timed_out: bool = False


@dataclass(slots=True)
class SpoutTask:
    """One spout.

    Args:
        failed: ids of a batch that an earlier process did not finish.
        clock: seconds that only grow.

    Raises:
        FlowError: by every method: the spout emitted something that is no tuple of its fields. What
            the spout itself raises comes through, with a note that names the component.
    """

    spout: SpoutCalls
    context: TaskContext
    fields: Fields
    limits: SpoutLimits
    failed: Sequence[MessageId] = ()
    clock: Callable[[], float] = time.monotonic
    _opened: bool = False
    _acked: int = -1
    _batch: _Batch | None = None

    def next_batch(self, start: SpoutOffset) -> SpoutOffset | None:
        """Ack the batch that ends at an offset, and collect the next one.

        Returns:
            Where the next batch ends; None if the spout has nothing to emit.
        """
        self._open()
        batch = self._batch
        if batch is not None and batch.begin == start.emitted:
            return batch.end
        if self._acked != start.emitted:
            self._acked = start.emitted
            timed_out = batch is not None and batch.timed_out and batch.end == start
            self._batch = None
            for each in () if timed_out else start.ids:
                self._call("ack", each)
        return self._collect(start)

    def tuples(self, begin: int, end: int) -> pa.RecordBatch | None:
        """Return the tuples of a batch; None if it has none."""
        if begin == end:
            return None
        batch = self._batch
        if batch is None or (batch.begin, batch.end.emitted) != (begin, end):
            raise FlowError(
                f"the tuples {begin} to {end} of the spout {self.context.component} are gone with"
                " the process that emitted them: start the flow again"
            )
        return batch.tuples

    def expire(self) -> None:
        """Fail the batch if it has run for longer than the message timeout."""
        batch, timeout = self._batch, self.limits.message_timeout_seconds
        if batch is None or batch.timed_out or timeout is None:
            return
        if self.clock() - batch.emitted_at >= timeout:
            batch.timed_out = True
            for each in batch.end.ids:
                self._call("fail", each)

    def close(self) -> None:
        """Deactivate and close the spout, if it was opened."""
        if self._opened:
            self._opened = False
            self._call("deactivate")
            self._call("close")

    def _open(self) -> None:
        if self._opened:
            return
        self._call("open", self.context)
        self._opened = True
        for each in self.failed:
            self._call("fail", each)
        self._call("activate")

    def _collect(self, start: SpoutOffset) -> SpoutOffset | None:
        collector = Collector(self.context.component, self.fields)
        until = self.clock() + _COLLECT_SECONDS
        while True:
            before = len(collector.rows)
            self._call("next_tuple", collector)
            if (
                len(collector.rows) == before
                or len(collector.rows) >= self.limits.max_pending
                or collector.size >= self.limits.max_batch_bytes
                or self.clock() >= until
            ):
                break
        if not collector.rows:
            return None
        emitted = start.emitted + len(collector.rows)
        end = SpoutOffset(start.spout, emitted, tuple(collector.ids))
        self._batch = _Batch(start.emitted, end, collector.batch(start.emitted), self.clock())
        return end

    def _call(self, method: str, *arguments: Any) -> None:
        try:
            getattr(self.spout, method)(*arguments)
        except Exception as error:
            error.add_note(failure_note(self.context.component, None))
            raise


@dataclass(slots=True)
class Collector:
    """What `next_tuple` is called with: collects the tuples that a spout emits.

    Attributes:
        size: about as many bytes as the tuples take.
    """

    component: str
    fields: Fields
    rows: list[Sequence[Any]] = field(default_factory=list)
    ids: list[MessageId] = field(default_factory=list)
    size: int = 0

    def __call__(self, values: Sequence[Any], message_id: MessageId | None = None) -> None:
        if not isinstance(values, list | tuple):
            raise FlowError(
                f"{self._declared} and emitted {_short(values)}: emit a tuple of values"
            )
        if len(values) != len(self.fields):
            raise FlowError(f"{self._declared} and emitted {len(values)} values: {_short(values)}")
        self.size += sum(map(_size, values))
        if self.size > MOST_BATCH_BYTES:
            raise FlowError(
                f"the spout {self.component} emitted more than {MOST_BATCH_BYTES >> 20} MiB in one"
                " batch: emit fewer tuples per call, or smaller ones"
            )
        if message_id is not None:
            self.ids.append(_checked_id(message_id, self.component))
        self.rows.append(values)

    def batch(self, first: int) -> pa.RecordBatch:
        """Return the tuples as columns, with their numbers from `first` on.

        Raises:
            FlowError: a value does not fit its field; the message has the tuple.
        """
        numbers = pa.array(range(first, first + len(self.rows)), pa.int64())
        arrays = [self._column(at, each) for at, each in enumerate(self.fields.schema)]
        names = [*self.fields.names, NUMBER]
        return pa.RecordBatch.from_arrays([*arrays, numbers], names=names)

    def _column(self, at: int, field: pa.Field) -> pa.Array:
        try:
            return pa.array([row[at] for row in self.rows], field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            bad = next((row for row in self.rows if not _fits(row[at], field.type)), None)
            raise FlowError(
                f"{self._declared} and emitted {_short(bad)}; {field.name} does not fit: {error}"
            ) from error

    @property
    def _declared(self) -> str:
        return f"the spout {self.component} declares {self.fields.ddl!r}"


def _checked_id(message_id: Any, component: str) -> MessageId:
    parts = message_id if isinstance(message_id, tuple) else (message_id,)
    for each in parts:
        if isinstance(each, tuple):
            _checked_id(each, component)
        elif not isinstance(each, str | int):
            raise FlowError(
                f"the spout {component} emitted a tuple with the message id {_short(message_id)}:"
                " an id is a text, an integer or a tuple of these"
            )
    checked: MessageId = message_id
    return checked


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return _VALUE_BYTES + len(value)
    if isinstance(value, dict):
        return _VALUE_BYTES + sum(_size(key) + _size(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return _VALUE_BYTES + sum(map(_size, value))
    return _VALUE_BYTES


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
