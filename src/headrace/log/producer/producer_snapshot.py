"""`.snapshot`: the producers of a partition as they were at one offset."""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import crc32c

from headrace.log.filesystem import FileSystem
from headrace.log.producer.producer_entry import BatchMetadata, ProducerEntry
from headrace.model.error import CorruptSnapshot, InvalidArgument
from headrace.model.ids import NO_SEQUENCE
from headrace.records.batch import add_sequence

VERSION = 1

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first
# offset of the open transaction
_ENTRY = struct.Struct(">qhiqiqiq")
_NAME = re.compile(r"(\d{20})\.snapshot")


def snapshot_path(directory: Path, offset: int) -> Path:
    """Return where the snapshot of everything below `offset` lies."""
    if offset < 0:
        raise InvalidArgument(f"a snapshot cannot stand at offset {offset}")
    return directory / f"{offset:020d}.snapshot"


def snapshot_offset(name: str) -> int | None:
    """Return the offset a snapshot is named after; None when `name` is not a snapshot's."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def write_snapshot(filesystem: FileSystem, path: Path, producers: Iterable[ProducerEntry]) -> None:
    """Write, atomically and durably: a snapshot that exists is whole."""
    filesystem.write_atomically(path, encode_snapshot(producers))


def read_snapshot(filesystem: FileSystem, path: Path) -> list[ProducerEntry]:
    """Return the producers of a snapshot file.

    Raises:
        CorruptSnapshot: it does not check. Remove it, take the one before and replay from there.
    """
    try:
        return decode_snapshot(filesystem.read_bytes(path))
    except CorruptSnapshot as error:
        raise CorruptSnapshot(f"producer snapshot {path} is corrupt: {error}") from None


def encode_snapshot(producers: Iterable[ProducerEntry]) -> bytes:
    """Encode the producers as Kafka's version 1. Only the last batch of each is kept: after a
    restart a duplicate of an earlier one is looked for in the log (`producer_recall`).
    """
    packed = [_pack(producer) for producer in producers]
    body = b"".join((_COUNT.pack(len(packed)), *packed))
    return _HEAD.pack(VERSION, crc32c.crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Reverse `encode_snapshot`; never reads more entries than there are bytes for."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"version {version} is not {VERSION}")
    body = memoryview(data)[_HEAD.size :]
    computed = crc32c.crc32c(body)
    if crc != computed:
        raise CorruptSnapshot(f"the CRC is {computed:#010x} and should be {crc:#010x}")
    (count,) = _COUNT.unpack_from(body)
    entries = body[_COUNT.size :]
    if count < 0 or count * _ENTRY.size != len(entries):
        raise CorruptSnapshot(f"{len(entries)} bytes cannot hold {count} producers")
    return [_unpack(fields) for fields in _ENTRY.iter_unpack(entries)]


def _pack(producer: ProducerEntry) -> bytes:
    last = producer.batches[-1] if producer.batches else None
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        producer.last_sequence,
        producer.last_offset,
        last.offset_delta if last else 0,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def _unpack(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first = fields
    if producer_id < 0 or delta < 0:
        raise CorruptSnapshot(f"producer {producer_id} with offset delta {delta} cannot be")
    batches = []
    if offset >= 0:
        start = sequence if sequence == NO_SEQUENCE else add_sequence(sequence, -delta)
        batches.append(BatchMetadata(start, sequence, offset, delta, timestamp))
    return ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, first, batches)
