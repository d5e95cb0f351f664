"""Spouts written in Python, with Storm's methods."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM
from headrace.flow.plan.work import TaskContext
from headrace.flow.runtime.spout_offset import MessageId
from headrace.flow.runtime.spout_task import (
    MOST_BATCH_BYTES,
    NUMBER,
    SPOUT_NAME,
    SpoutLimits,
    SpoutTaskSpec,
)
from headrace.flow.runtime.tuple_batch import ORIGIN, TupleBatch
from headrace.flow.storm.spout import Spout

MAX_PENDING: Final = "topology.max.spout.pending"
MESSAGE_TIMEOUT: Final = "topology.message.timeout.secs"
_NO_FIELDS: Final = Fields(pa.schema([]), "")


class SpoutEmit(Protocol):
    """Emits one tuple of a spout.

    Args:
        values: a tuple or list with a value per field.
        message_id: what `ack` and `fail` are called with: a text, an integer or a tuple of these.
            Without one, neither is called for the tuple, and it is lost if its batch fails.
    """

    def __call__(self, values: Sequence[Any], message_id: MessageId | None = None) -> None: ...


class PythonSpout(Spout):
    """Base class of spouts written in Python. Implement `next_tuple`; the rest as needed.

    There is one object per topology, in a process on the driver's machine. It travels there
    pickled: make connections in `open`. All methods are called in one thread, one after the other.

    The guarantee is at least once, and the spout is the source of truth: it keeps every tuple until
    `ack`, and emits it again after `fail`, and after a restart if it has had no ack. `ack` comes
    when the batch with the tuple is committed, `fail` when the batch failed or took longer than the
    message timeout. After a restart both may come for ids that another process emitted, and `ack`
    may come once more for an id that it came for already.

    Attributes:
        fields: names and types of the tuples, such as "word STRING, n BIGINT".
        max_pending: after how many tuples a batch ends; by default the setting
            topology.max.spout.pending, or 10,000. It is looked at after each `next_tuple`: emit few
            per call. A batch is acked before the next one is emitted.
        message_timeout_seconds: after which time tuples of a running batch are failed; by default
            the setting topology.message.timeout.secs, or never.
        max_batch_bytes: after how many bytes a batch ends.

    Example:
        class Jobs(PythonSpout):
            fields = "job STRING"

            def open(self, context):
                self.queue = connect("jobs")

            def next_tuple(self, emit):
                for message in self.queue.receive(limit=100, seconds=0):
                    emit((message.body,), message_id=message.receipt)

            def ack(self, message_id):
                self.queue.delete(message_id)

            def fail(self, message_id):
                self.queue.release(message_id)
    """

    fields: Any = ""
    max_pending: int | None = None
    message_timeout_seconds: float | None = None
    max_batch_bytes: int = 16 << 20

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "fields" in cls.__dict__ and cls.fields:
            cls.fields = Fields.parse(cls.fields)

    def open(self, context: TaskContext) -> None:
        """Make connections. Called once, before every other method, by each start of the query."""

    def next_tuple(self, emit: SpoutEmit) -> None:
        """Emit tuples with `emit(values, message_id=...)`: one, several, or none if there are none.

        It is called again and again until it emits none, a batch is full or 0.1 seconds are over.
        Do not wait long: the batches of all spouts of the topology wait too.
        """
        raise NotImplementedError

    def ack(self, message_id: Any) -> None:
        """Forget a tuple: everything that was made of it is written."""

    def fail(self, message_id: Any) -> None:
        """Emit a tuple again."""

    def activate(self) -> None:
        """Called after every `open`, also by `headrace flow activate`."""

    def deactivate(self) -> None:
        """Called before every `close`, also by `headrace flow deactivate`: it closes the spout."""

    def close(self) -> None:
        """Release what `open` made: the query has ended. A crash calls nothing."""

    def as_work(self) -> "PythonSpoutWork":
        return PythonSpoutWork(self)


class PythonSpoutWork(Spout):
    """A Python spout as a component: a separate object, so that no attribute here clashes with one
    of the user's."""

    replayable = False

    def __init__(self, spout: PythonSpout) -> None:
        self.spout = spout
        self.fields = Fields.parse(spout.fields) if spout.fields else _NO_FIELDS
        self._place: SpoutTaskSpec | None = None

    def bound(
        self,
        plan: str,
        component: str,
        *,
        parallelism: int,
        settings: Mapping[str, str],
        failed: tuple[MessageId, ...],
    ) -> "PythonSpoutWork":
        bound = copy.copy(self)
        bound._place = SpoutTaskSpec(
            context=TaskContext(plan, component, task=0, tasks=1),
            fields=self.fields,
            limits=limits_of(self.spout, component, settings),
            tasks=parallelism,
            failed=failed,
        )
        return bound

    def staged(
        self, spark: Any, stage: Any, output_ddl: str, *, label: str, streaming: bool
    ) -> Any:
        from headrace.flow.runtime.spout_source import spout_source

        assert self._place is not None
        if not streaming:
            raise FlowError(
                f"the spout {self._place.context.component} is written in Python and only runs in a"
                " stream, where its tuples can be acked: leave out --batch; --available-now ends"
                " when it emits none"
            )
        source = spout_source(label, self.spout, self._place, stage, output_ddl)
        spark.dataSource.register(source)
        return spark.readStream.format(label).load()

    def decode(self, batch: pa.RecordBatch) -> Iterator[tuple[str, TupleBatch]]:
        """Yield the tuples. Their origin is the spout's name, partition 0 and their number."""
        name = (batch.schema.metadata or {}).get(SPOUT_NAME, b"").decode()
        count = batch.num_rows
        topic = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int16()), count), [name])
        partition = pa.repeat(pa.scalar(0, pa.int32()), count)
        numbers = batch.column(NUMBER)
        origin = pa.RecordBatch.from_arrays([topic, partition, numbers], schema=ORIGIN)
        columns = batch.drop_columns([NUMBER]).replace_schema_metadata(None)
        yield DEFAULT_STREAM, TupleBatch(columns, origin)


def limits_of(spout: PythonSpout, component: str, settings: Mapping[str, str]) -> SpoutLimits:
    """Return the bounds of a spout: its own, or those of the settings.

    Raises:
        FlowError: they make no sense.
    """
    pending, timeout = spout.max_pending, spout.message_timeout_seconds
    if pending is None:
        pending = int(_number(settings, MAX_PENDING) or SpoutLimits().max_pending)
    if timeout is None:
        timeout = _number(settings, MESSAGE_TIMEOUT)
    if pending < 1 or (timeout is not None and timeout <= 0):
        raise FlowError(
            f"the spout {component} has max_pending {pending} and a message timeout of {timeout}"
            " seconds: both are more than 0"
        )
    if not 0 < spout.max_batch_bytes <= MOST_BATCH_BYTES:
        raise FlowError(
            f"the spout {component} has max_batch_bytes {spout.max_batch_bytes}: write 1 to"
            f" {MOST_BATCH_BYTES}"
        )
    return SpoutLimits(pending, spout.max_batch_bytes, timeout)


def _number(settings: Mapping[str, str], key: str) -> float | None:
    try:
        return float(settings[key]) if key in settings else None
    except ValueError:
        raise FlowError(f"{key} cannot be {settings[key]!r}: write a number") from None
