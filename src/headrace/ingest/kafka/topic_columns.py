"""Turns events into the columns of records."""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import pyarrow as pa

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import TOMBSTONE_HEADER, EventBatch, Headers
from headrace.ingest.format.avro_event import HeadersEncoder, encode_long
from headrace.ingest.format.event_time import time_ms
from headrace.ingest.kafka.registry_framing import RegistryFraming
from headrace.model.ids import TOPIC_NAME_MAX_LENGTH, topic_name_problem

T = TypeVar("T")
# Brokers refuse records of clients for these.
_INTERNAL = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class TopicColumns(NamedTuple):
    """How events become columns of records.

    Attributes:
        topic: the default topic.
        topic_header: the header that may name another topic. A name that no topic can have, or only
            one of the cluster's own, is not used: its batch would be refused for ever.
        positions_topic: a topic that no header may name either.
        refused: topics that cannot be written, so that no header may name them.
        on_header_refused: is given a name that was not used, and how many events had it.
        partition_header: the header that names the partition.
        default_partition: for events without that header.
        timestamp_header: the header with the record's time in milliseconds.
        record_headers: the names of record headers and the event headers they come from.
        all_headers: write all of an event's headers as record headers.
        flume_format: write the value as an Avro event with headers, instead of the body.
        framing: puts the ids of schemas in front of values, and of keys that have one.
    """

    topic: str
    topic_header: str | None = None
    positions_topic: str | None = None
    refused: Container[str] = ()
    on_header_refused: Callable[[str, int], None] = lambda _name, _count: None
    partition_header: str | None = None
    default_partition: int | None = None
    timestamp_header: str | None = None
    record_headers: Mapping[str, str] = {}
    all_headers: bool = False
    flume_format: bool = False
    framing: RegistryFraming | None = None

    def tables(self, batch: EventBatch) -> list[tuple[str, pa.Table]]:
        """Return the records of a batch by topic, in order within each topic."""
        if not len(batch):
            return []
        if self.topic_header is None:
            return [(self.topic, self._table(self.topic, batch))]
        shared = batch.same_headers
        if shared is not None:
            topic = self.topic_of(shared, len(batch))
            return [(topic, self._table(topic, batch))]
        rows: dict[str, list[int]] = {}
        for row, headers in enumerate(batch.headers):
            rows.setdefault(self.topic_of(headers), []).append(row)
        if len(rows) == 1:
            (topic,) = rows
            return [(topic, self._table(topic, batch))]
        return [(topic, self._table(topic, batch.pick(chosen))) for topic, chosen in rows.items()]

    def topic_of(self, headers: Headers, count: int = 1) -> str:
        """Return the topic of events with these headers."""
        named = None if self.topic_header is None else headers.get(self.topic_header)
        if named is None or named == self.topic:
            return self.topic
        is_free = named != self.positions_topic and named not in _INTERNAL
        if is_free and _can_name(named) and named not in self.refused:
            return named
        self.on_header_refused(named, count)
        return self.topic

    def _table(self, topic: str, batch: EventBatch) -> pa.Table:
        shared = batch.same_headers
        columns: dict[str, pa.Array] = {"value": self._value_column(topic, batch, shared)}
        if shared is not None and not shared and self.default_partition is None:
            return pa.table(columns)
        keys = _each(batch, _key)
        if any(key is not None for key in keys):
            written_keys = keys if self.framing is None else self.framing.frame_keys(topic, keys)
            columns["key"] = pa.array(written_keys, pa.large_binary())
        if (partitions := _column(batch, self._partition)) is not None:
            columns["partition"] = pa.array(partitions, pa.int32())
        if self.timestamp_header is not None and (times := _column(batch, self._time)) is not None:
            columns["timestamp"] = pa.array(times, pa.int64())
        if self.all_headers or self.record_headers:
            columns["headers"] = pa.array(_each(batch, self._pairs), _PAIRS)
        return pa.table(columns)

    def _value_column(self, topic: str, batch: EventBatch, shared: Headers | None) -> pa.Array:
        has_values = shared is not None and TOMBSTONE_HEADER not in shared
        as_they_are = self.framing is None and not self.flume_format
        if batch.packed is not None and has_values and as_they_are:
            packed = batch.packed
            buffers = [None, pa.py_buffer(packed.offsets), pa.py_buffer(packed.data)]
            return pa.Array.from_buffers(pa.large_binary(), len(packed), buffers, 0)
        plain_values = self._values(batch)
        values: Sequence[bytes | None] = plain_values
        if self.framing is not None:
            values = self.framing.frame(topic, batch, plain_values)
        written = values if has_values else _nulled(batch, values)
        return pa.array(written, pa.large_binary())

    def _values(self, batch: EventBatch) -> list[bytes]:
        if not self.flume_format:
            return batch.bodies
        encoder = HeadersEncoder()
        return [
            encoder.encode(headers) + encode_long(len(body)) + body
            for headers, body in zip(batch.headers, batch.bodies, strict=True)
        ]

    def _partition(self, headers: Headers) -> int | None:
        written = headers.get(self.partition_header) if self.partition_header else None
        if written is None:
            return self.default_partition
        if not (written.isascii() and written.isdigit()) or len(written) > 9:
            raise DeliveryFailed(
                f"header {self.partition_header} is {written!r}, which is no partition"
            )
        return int(written)

    def _time(self, headers: Headers) -> int | None:
        return time_ms(headers, self.timestamp_header or "")

    def _pairs(self, headers: Headers) -> list[dict[str, object]]:
        if self.all_headers:
            return [{"key": name, "value": value.encode()} for name, value in headers.items()]
        return [
            {"key": name, "value": headers[own].encode()}
            for name, own in self.record_headers.items()
            if own in headers
        ]


def _can_name(topic: str) -> bool:
    """Return whether a topic can have the name."""
    return len(topic) <= TOPIC_NAME_MAX_LENGTH and _has_no_problem(topic)


@lru_cache(maxsize=1024)
def _has_no_problem(topic: str) -> bool:
    return topic_name_problem(topic) is None


def _nulled(batch: EventBatch, values: Sequence[bytes | None]) -> list[bytes | None]:
    """Return the values, with None for tombstones."""
    nulls = _each(batch, lambda headers: TOMBSTONE_HEADER in headers)
    if True not in nulls:
        return [*values]
    return [
        None if null and not body else value
        for null, body, value in zip(nulls, batch.bodies, values, strict=True)
    ]


def _key(headers: Headers) -> bytes | None:
    key = headers.get("key")
    return None if key is None else key.encode()


def _each(batch: EventBatch, of: Callable[[Headers], T]) -> list[T]:
    """Return a value per event, computed once for neighbours that share headers."""
    before: Headers | None = None
    values: list[T] = []
    for headers in batch.headers:
        if headers is not before:
            before, value = headers, of(headers)
        values.append(value)
    return values


def _column(batch: EventBatch, of: Callable[[Headers], T]) -> list[T] | None:
    """Return a value per event, or None if no event has one."""
    values = _each(batch, of)
    return values if any(value is not None for value in values) else None
