"""Sinks: they write tuples to a topic as records."""

import json
from typing import Any

import pyarrow as pa

from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.record import RECORDS, records


class TopicSink(Work):
    """Writes every tuple to a topic.

    Args:
        key: the field that is the record's key.
        value: the field that is the record's value; None: all fields, as JSON.

    Example:
        TopicSink("counts", key="word")
    """

    def __init__(self, topic: str, *, key: str | None = None, value: str | None = None) -> None:
        self.topic = topic
        self.key = key
        self.value = value

    def check_fields(self, fields: Fields, name: str) -> None:
        named = [each for each in (self.key, self.value) if each is not None]
        fields.check_known(named, f"the sink {name}")

    def expression(self, fields: Fields) -> str:
        """Return the record of a tuple in Spark's SQL, for real-time mode."""
        every = ", ".join(f"'{name}', {name}" for name in fields.names)

        def in_bytes(name: str) -> str:
            kept = fields.ddl_of(name) == "BINARY"
            return name if kept else f"CAST(CAST({name} AS STRING) AS BINARY)"

        whole = f"CAST(to_json(named_struct({every})) AS BINARY)"
        value = whole if self.value is None else in_bytes(self.value)
        key = "CAST(NULL AS BINARY)" if self.key is None else in_bytes(self.key)
        return f"named_struct('topic', '{self.topic}', 'key', {key}, 'value', {value})"

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        value = to_json(batch) if self.value is None else to_bytes(batch.column(self.value))
        key = None if self.key is None else to_bytes(batch.column(self.key))
        batch_of_records = records(self.topic, key=key, value=value)
        emit(batch_of_records, stream=RECORDS, rows=range(batch.num_rows))


def to_bytes(column: pa.Array) -> pa.Array:
    """Return a column as keys or values: text as UTF-8, numbers as their text, bytes unchanged."""
    if pa.types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())


def to_json(batch: pa.RecordBatch) -> pa.Array:
    """Return each tuple as a JSON object."""
    dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_as_text).encode
    return pa.array([dump(row).encode() for row in batch.to_pylist()], pa.binary())


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
