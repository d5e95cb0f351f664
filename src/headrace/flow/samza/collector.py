"""The messages that a task sends, as records for topics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.samza.envelope import OutgoingMessageEnvelope, SystemStream
from headrace.flow.samza.serde import Serde

Serdes = Callable[[SystemStream], tuple[Serde, Serde]]
"""A function of a stream: its serdes for keys and messages."""


@dataclass(slots=True)
class SentRecords:
    """Records in the order in which they were sent, each with the row of the batch it is from."""

    topics: list[str] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, row: int
    ) -> None:
        self.topics.append(topic)
        self.keys.append(key)
        self.values.append(value)
        self.partitions.append(partition)
        self.rows.append(row)

    def to_batch(self) -> pa.RecordBatch:
        schema = RECORD_FIELDS.schema
        columns = [
            pa.array(self.topics, schema.field("topic").type),
            pa.array(self.keys, schema.field("key").type),
            pa.array(self.values, schema.field("value").type),
            pa.nulls(len(self.topics), schema.field("headers").type),
            pa.array(self.partitions, schema.field("partition").type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


class MessageCollector:
    """Sends messages. `process` and `window` receive it.

    Messages become visible when the batch is committed.
    """

    def __init__(self, sent: SentRecords, serdes: Serdes, *, dropping: bool = False) -> None:
        self._sent = sent
        self._serdes = serdes
        self._dropping = dropping
        self.row = 0

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        """Send a message to its stream."""
        stream = envelope.system_stream
        key_serde, message_serde = self._serdes(stream)
        try:
            key = _to_bytes(key_serde, envelope.key)
            message = _to_bytes(message_serde, envelope.message)
        except Exception:
            if self._dropping:
                return
            raise
        self._sent.add(stream.stream, key, message, envelope.partition, self.row)


def _to_bytes(serde: Serde, value: Any) -> bytes | None:
    return None if value is None else serde.to_bytes(value)
