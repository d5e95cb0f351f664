"""Control batches: records that a coordinator writes into a partition for the log and its readers.

A control record's key is `version int16, type int16`. The type says what the value is. The two that
end a transaction (KIP-98) are written here; the others are Kafka's own for its metadata log, which
we only have to name when we meet one.

    EndTxnMarker value: version int16 = 0, coordinator epoch int32
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from headrace.model.error import CorruptBatch, InvalidArgument
from headrace.records.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    Batch,
    build_head,
)
from headrace.records.varint import MAX_VARINT_BYTES, read_varint, write_varint

_KEY = Struct(">hh")
_END_TXN_VALUE = Struct(">hi")


class ControlType(IntEnum):
    """What a control record says. A number that is not here is `UNKNOWN`: skip the record."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """The first record of a control batch; transaction markers are always alone in theirs."""

    type: ControlType
    version: int
    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    value: bytes

    @property
    def ends_transaction(self) -> bool:
        return self.type in (ControlType.ABORT, ControlType.COMMIT)

    @property
    def coordinator_epoch(self) -> int:
        """Of the transaction coordinator that wrote this marker.

        Raises:
            CorruptBatch: this is no marker, or its value is too short to be one.
        """
        if not self.ends_transaction or len(self.value) < _END_TXN_VALUE.size:
            raise CorruptBatch(
                f"The control record at offset {self.offset} is no transaction marker: "
                f"type {self.type.name}, {len(self.value)} bytes of value."
            )
        _version, epoch = _END_TXN_VALUE.unpack_from(self.value)
        return int(epoch)


def build_marker(
    type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Build the batch that commits or aborts a producer's open transaction in one partition.

    >>> marker = build_marker(ControlType.ABORT, producer_id=9, producer_epoch=1,
    ...                       coordinator_epoch=4, timestamp_ms=1_700_000_000_000)
    >>> read_control(Batch(marker)).coordinator_epoch
    4
    """
    if type not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidArgument(f"a marker is ABORT or COMMIT, not {type!r}")
    if producer_id < 0 or producer_epoch < 0:
        raise InvalidArgument(
            f"a marker ends the transaction of a producer: id {producer_id} and "
            f"epoch {producer_epoch} name none"
        )
    key = _KEY.pack(0, type)
    value = _END_TXN_VALUE.pack(0, coordinator_epoch)
    # attributes, timestamp delta, offset delta; then the key, the value and no headers.
    body = b"".join(
        (b"\0\0\0", write_varint(len(key)), key, write_varint(len(value)), value, b"\0")
    )
    records = write_varint(len(body)) + body
    head = build_head(
        records,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        last_offset_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        record_count=1,
    )
    return head + records


def read_control(batch: Batch) -> ControlRecord | None:
    """Return what a control batch says; None when compaction dropped its record and left the head.

    The batch must be valid already.

    Raises:
        InvalidArgument: it is not a control batch.
        CorruptBatch: its record does not parse.
    """
    if not batch.is_control:
        raise InvalidArgument(f"{batch!r} is not a control batch")
    if batch.compression:
        raise CorruptBatch(f"The control batch at offset {batch.base_offset} is compressed.")
    if batch.record_count == 0:
        return None
    view = batch.records
    length, at = read_varint(view, 0, MAX_VARINT_BYTES)
    if not 0 < length <= len(view) - at:
        raise _broken(batch, f"its record claims {length} bytes of {len(view) - at}")
    view = view[: at + length]
    timestamp_delta, at = read_varint(view, at + 1)
    offset_delta, at = read_varint(view, at, MAX_VARINT_BYTES)
    key, at = _read_bytes(batch, view, at)
    value, at = _read_bytes(batch, view, at)
    if len(key) < _KEY.size:
        raise _broken(batch, f"its key has {len(key)} bytes, not {_KEY.size}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise _broken(batch, f"its key has version {version}")
    return ControlRecord(
        type=_type_of(number),
        version=version,
        offset=batch.base_offset + offset_delta,
        timestamp_ms=batch.base_timestamp + timestamp_delta,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        value=value,
    )


def _type_of(number: int) -> ControlType:
    try:
        return ControlType(number)
    except ValueError:
        return ControlType.UNKNOWN


def _read_bytes(batch: Batch, view: memoryview, at: int) -> tuple[bytes, int]:
    length, at = read_varint(view, at, MAX_VARINT_BYTES)
    if length > len(view) - at:
        raise _broken(batch, f"a field claims {length} bytes of {len(view) - at}")
    end = at + max(length, 0)
    return bytes(view[at:end]), end


def _broken(batch: Batch, what: str) -> CorruptBatch:
    return CorruptBatch(f"The control batch at offset {batch.base_offset} is broken: {what}.")
