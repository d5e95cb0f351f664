"""The entries of the files of a partition, for `headrace log dump`.

Nothing here writes, locks or needs a broker, so it works on a copy and on the files of a running
broker (whose last batch may be half written at that moment). Each file is read in pieces; an entry
is a mapping that can be printed. The first invalid byte ends a file with `Damage`.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any

from headrace.log.filesystem import Disk
from headrace.log.partition.leader_epochs import FILE_NAME as LEADER_EPOCH_NAME
from headrace.log.partition.leader_epochs import LeaderEpochs
from headrace.log.producer.producer_snapshot import read_snapshot, snapshot_offset
from headrace.log.segment.batch_scan import BatchScan
from headrace.log.segment.segment_name import (
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    parse_segment_file_name,
)
from headrace.model.error import CorruptLog, CorruptSnapshot, HeadraceError, InvalidArgument
from headrace.records.batch import Batch
from headrace.records.compression import Codec
from headrace.records.control import read_control

Entry = dict[str, Any]

_DISK = Disk()
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")
_READ_BYTES = 1024 * 1024
_AT_BYTE = re.compile(r"^At byte \d+ of the file: | at byte \d+(?= \(base offset)")


class Damage(HeadraceError):
    """A file is invalid from some byte on; the message names it."""


def dumpable_files(path: Path) -> list[Path]:
    """Return the files to dump, in order: a file itself, or the files of a partition, or of all
    partitions of a data directory.

    Raises:
        InvalidArgument: the path is no part of a log.
    """
    if path.is_file():
        if _kind(path) is None:
            raise InvalidArgument(
                f"{path} is no part of a log: dump reads .log, .index, .timeindex, .txnindex and "
                f".snapshot files and {LEADER_EPOCH_NAME}"
            )
        return [path]
    if not path.is_dir():
        raise InvalidArgument(f"there is no file or directory {path}")
    files = sorted(each for each in path.iterdir() if each.is_file() and _kind(each) is not None)
    for each in sorted(each for each in path.iterdir() if each.is_dir()):
        files += sorted(file for file in each.iterdir() if file.is_file() and _kind(file))
    if not files:
        raise InvalidArgument(f"{path} holds no segments: name a partition's directory")
    return files


def dump_file(path: Path, *, records: bool = False) -> Iterator[Entry]:
    """Yield the entries of one file.

    Args:
        records: yield a log's batches with their records.

    Raises:
        Damage: the file is invalid; the message has the position of the first invalid byte.
    """
    try:
        match _kind(path):
            case ".log":
                yield from _batches(path, records)
            case ".index":
                yield from _offset_index(path)
            case ".timeindex":
                yield from _time_index(path)
            case ".txnindex":
                yield from _transaction_index(path)
            case ".snapshot":
                yield from _snapshot(path)
            case _:
                yield from _leader_epochs(path)
    except OSError as error:
        raise Damage(f"cannot read {path}: {error.strerror or error}") from error


def _kind(path: Path) -> str | None:
    """Return the suffix that names a file's format, without what compaction and deletion append."""
    if path.name == LEADER_EPOCH_NAME:
        return LEADER_EPOCH_NAME
    named = parse_segment_file_name(path.name)
    return None if named is None else named[1]


def _base_offset(path: Path) -> int:
    named = parse_segment_file_name(path.name)
    assert named is not None
    return named[0]


def _batches(path: Path, records: bool) -> Iterator[Entry]:
    file = _DISK.open(path, read_only=True)
    scan = BatchScan(file, 0, file.size(), _base_offset(path))
    for position, batch in scan:
        entry = _batch(position, batch)
        if records:
            try:
                entry["records"] = list(_records(batch))
            except HeadraceError as error:
                raise Damage(
                    f"{path} is damaged in the batch at byte {position}: {error}"
                ) from None
        yield entry
    if scan.problem is not None:
        # The scan's message counts from where it read last; the position in the file replaces it.
        problem = _AT_BYTE.sub("", scan.problem)
        raise Damage(f"{path} is damaged at byte {scan.position}: {problem}")


def _batch(position: int, batch: Batch) -> Entry:
    entry: Entry = {
        "position": position,
        "size_bytes": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.record_count,
        "leader_epoch": batch.leader_epoch,
        "codec": Codec(batch.compression).name.lower(),
        "crc": f"{batch.crc:#010x}",
        "timestamp_type": "LogAppendTime" if batch.timestamp_type else "CreateTime",
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "transactional": batch.is_transactional,
        "control": None,
    }
    if batch.is_control:
        control = read_control(batch)
        entry["control"] = "EMPTY" if control is None else control.type.name
    return entry


def _records(batch: Batch) -> Iterator[Entry]:
    if batch.is_control:
        control = read_control(batch)
        if control is not None:
            yield {
                "offset": control.offset,
                "timestamp": control.timestamp_ms,
                "control": control.type.name,
                **(
                    {"coordinator_epoch": control.coordinator_epoch}
                    if control.ends_transaction
                    else {}
                ),
            }
        return
    # Imported here: a dump of batches alone does not need numba.
    import pyarrow as pa

    from headrace.records.decode import decode

    columns = decode(batch.data, columns=["offset", "timestamp", "key", "value", "headers"]).columns
    times = columns.column("timestamp").cast(pa.int64()).to_pylist()
    for number, row in enumerate(columns.drop_columns(["timestamp"]).to_pylist()):
        yield {
            "offset": row["offset"],
            "timestamp": times[number],
            **_content("key", row["key"]),
            **_content("value", row["value"]),
            "headers": [
                {"key": header["key"], **_content("value", header["value"])}
                for header in row["headers"]
            ],
        }


def _content(name: str, data: bytes | None) -> Entry:
    """Return a key or value as text if it is text, otherwise as base64 under `NAME_base64`."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def _offset_index(path: Path) -> Iterator[Entry]:
    base = _base_offset(path)
    for position, (relative, log_position) in _growing(path, _OFFSET_ENTRY):
        yield {"position": position, "offset": base + relative, "log_position": log_position}


def _time_index(path: Path) -> Iterator[Entry]:
    base = _base_offset(path)
    for position, (timestamp, relative) in _growing(path, _TIME_ENTRY):
        yield {"position": position, "timestamp": timestamp, "offset": base + relative}


def _growing(path: Path, layout: Struct) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield entries of two numbers that both grow. Apache Kafka reserves space after them, filled
    with zeros, while it writes to a segment: zeros up to the end of the file are no damage."""
    last: tuple[int, int] | None = None
    for position, fields in _unpacked(path, layout):
        first, second = fields
        if last is not None and (first <= last[0] or second < last[1]):
            if not any(fields) and _only_zeros(path, position):
                return
            raise Damage(
                f"{path} is damaged at byte {position}: the entry {first}, {second} comes after "
                f"{last[0]}, {last[1]}"
            )
        # A single entry of zeros may be an entry; more of them are reserved space.
        reserved = last is None and not any(fields) and path.stat().st_size > layout.size
        if reserved and _only_zeros(path, position):
            return
        last = first, second
        yield position, last


def _only_zeros(path: Path, position: int) -> bool:
    with path.open("rb") as file:
        file.seek(position)
        while data := file.read(_READ_BYTES):
            if data.strip(b"\0"):
                return False
    return True


def _transaction_index(path: Path) -> Iterator[Entry]:
    previous = -1
    for position, fields in _unpacked(path, _TRANSACTION_ENTRY):
        version, producer_id, first, last, stable = fields
        if version != 0 or last <= previous or not 0 <= first <= last:
            raise Damage(
                f"{path} is damaged at byte {position}: version {version}, offsets {first} to "
                f"{last} after a marker at {previous} are impossible"
            )
        previous = last
        yield {
            "position": position,
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }


def _unpacked(path: Path, layout: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the position and the fields of entries of one size."""
    step = _READ_BYTES // layout.size * layout.size
    position = 0
    with path.open("rb") as file:
        while data := file.read(step):
            whole = len(data) // layout.size * layout.size
            for fields in layout.iter_unpack(memoryview(data)[:whole]):
                yield position, fields
                position += layout.size
            if whole < len(data):
                raise Damage(
                    f"{path} is damaged at byte {position}: {len(data) - whole} bytes are no whole "
                    f"entry of {layout.size}"
                )


def _snapshot(path: Path) -> Iterator[Entry]:
    try:
        producers = read_snapshot(_DISK, path)
    except CorruptSnapshot as error:
        raise Damage(str(error)) from error
    offset = snapshot_offset(path.name)
    for producer in producers:
        yield {
            "snapshot_offset": offset,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": producer.last_sequence,
            "last_offset": producer.last_offset,
            "last_timestamp": producer.last_timestamp_ms,
            "coordinator_epoch": producer.coordinator_epoch,
            "transaction_first_offset": producer.transaction_first_offset,
        }


def _leader_epochs(path: Path) -> Iterator[Entry]:
    try:
        entries = LeaderEpochs(_DISK, path).entries
    except CorruptLog as error:
        raise Damage(str(error)) from error
    for epoch, start in entries:
        yield {"epoch": epoch, "start_offset": start}


__all__ = ["LOG", "OFFSET_INDEX", "SNAPSHOT", "TIME_INDEX", "TRANSACTION_INDEX", "Damage"]
