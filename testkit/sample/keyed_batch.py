"""Record batches written and read record by record in plain Python: slow, obvious, independent.

The oracle for everything that handles records in bulk. It shares no kernel with what it judges.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.records.batch import Batch, Buffer, build_head, iter_batches
from headrace.records.compression import Codec, compress, inflate
from headrace.records.varint import read_varint, write_varint

_MAX_INFLATED_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """One record. `offset` is absolute; None in a record to be written means the next one."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 1_700_000_000_000
    offset: int | None = None
    headers: bytes = b"\0"
    """Their encoding, count first."""


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch's head and its records."""

    head: Batch
    records: tuple[KeyedRecord, ...]


def keyed_batch(
    records: Sequence[KeyedRecord],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    attributes: int = 0,
    base_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = 0,
) -> bytes:
    """Build a batch of these records; offsets count up from `base_offset` where they are not
    given.
    """
    base_ms = records[0].timestamp_ms if base_timestamp is None else base_timestamp
    body = bytearray()
    offset = base_offset - 1
    for record in records:
        offset = offset + 1 if record.offset is None else record.offset
        inner = b"".join(
            (
                b"\0",
                write_varint(record.timestamp_ms - base_ms),
                write_varint(offset - base_offset),
                _sized(record.key),
                _sized(record.value),
                record.headers,
            )
        )
        body += write_varint(len(inner)) + inner
    packed = bytes(compress(codec, bytes(body)))
    head = build_head(
        packed,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes | codec,
        last_offset_delta=(offset if last_offset is None else last_offset) - base_offset,
        base_timestamp=base_ms,
        max_timestamp=max(record.timestamp_ms for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return head + packed


def read_batches(data: Buffer) -> Iterator[ReadBatch]:
    """Yield every batch of `data`, checked, with its records, control records included."""
    for head in iter_batches(data):
        head.validate()
        yield ReadBatch(head, tuple(_read_records(head)))


def _read_records(head: Batch) -> Iterator[KeyedRecord]:
    view = inflate(Codec(head.compression), head.records, _MAX_INFLATED_BYTES)
    at = 0
    for _ in range(head.record_count):
        length, at = read_varint(view, at)
        end = at + length
        timestamp_delta, at = read_varint(view, at + 1)
        offset_delta, at = read_varint(view, at)
        key, at = _read_sized(view, at)
        value, at = _read_sized(view, at)
        yield KeyedRecord(
            key=key,
            value=value,
            timestamp_ms=head.base_timestamp + timestamp_delta,
            offset=head.base_offset + offset_delta,
            headers=bytes(view[at:end]),
        )
        at = end
    assert at == len(view), f"{len(view) - at} bytes follow the last record of {head!r}"


def _sized(value: bytes | None) -> bytes:
    return write_varint(-1) if value is None else write_varint(len(value)) + value


def _read_sized(view: memoryview, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(view, at)
    if length < 0:
        return None, at
    return bytes(view[at : at + length]), at + length
