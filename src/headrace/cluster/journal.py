"""Bytes of the local store: frames of the journal and the snapshot.

Both are drawn in docs/formats/cluster-store.md. A frame is one commit. Its checksum covers its
sequence number and its operations, so a frame is whole or it is nothing.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from crc32c import crc32c

from headrace.model.error import CorruptLog

FRAME_MAGIC = b"HRJ1"
SNAPSHOT_MAGIC = b"HRS1"
_FRAME_HEAD = struct.Struct(">4sIIQ")  # magic, bytes of operations, checksum, sequence
_SNAPSHOT_HEAD = struct.Struct(">4sIQ")  # magic, checksum, sequence
_SEQUENCE = struct.Struct(">Q")
_OPERATION = struct.Struct(">BIHI")  # put or delete, version, bytes of path, bytes of data

_PUT = 1
_DELETE = 2


@dataclass(frozen=True, slots=True)
class JournalPut:
    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class JournalDelete:
    path: str


JournalOperation = JournalPut | JournalDelete


@dataclass(frozen=True, slots=True)
class JournalFrame:
    """One commit; `end` is where the next frame begins."""

    sequence: int
    operations: tuple[JournalOperation, ...]
    end: int


def encode_frame(sequence: int, operations: Iterable[JournalOperation]) -> bytes:
    body = _encode(operations)
    checksum = crc32c(body, crc32c(_SEQUENCE.pack(sequence)))
    return _FRAME_HEAD.pack(FRAME_MAGIC, len(body), checksum, sequence) + body


def encode_snapshot(sequence: int, operations: Iterable[JournalOperation]) -> bytes:
    body = _encode(operations)
    checksum = crc32c(body, crc32c(_SEQUENCE.pack(sequence)))
    return _SNAPSHOT_HEAD.pack(SNAPSHOT_MAGIC, checksum, sequence) + body


def decode_snapshot(data: bytes) -> tuple[int, tuple[JournalOperation, ...]]:
    """Return the sequence number of the last commit in a snapshot, and all nodes after it.

    Raises:
        CorruptLog: a snapshot is written atomically, so one that does not check is damaged.
    """
    if len(data) >= _SNAPSHOT_HEAD.size:
        magic, checksum, sequence = _SNAPSHOT_HEAD.unpack_from(data)
        body = memoryview(data)[_SNAPSHOT_HEAD.size :]
        if magic == SNAPSHOT_MAGIC and checksum == crc32c(body, crc32c(_SEQUENCE.pack(sequence))):
            return sequence, tuple(_decode(body))
    raise CorruptLog("the snapshot of the cluster store does not match its checksum")


def read_frames(data: bytes, folded: int) -> Iterator[JournalFrame]:
    """Yield the whole frames from the start, in ascending order, up to the first torn one.

    `folded` is the sequence number of the snapshot. Frames up to it may lie anywhere: they were cut
    off after the snapshot was written, and a crash may have undone just that.

    Raises:
        CorruptLog: when whole frames lie behind it. A crash can only tear the last frame, because
            each is synced before the next is written; anything else is damage.
    """
    position, last = 0, -1
    while (frame := _frame_at(data, position)) is not None and frame.sequence > last:
        yield frame
        position, last = frame.end, frame.sequence
    _check_nothing_follows(data, position, max(last, folded))


def _frame_at(data: bytes, position: int) -> JournalFrame | None:
    if position + _FRAME_HEAD.size > len(data):
        return None
    magic, size, checksum, sequence = _FRAME_HEAD.unpack_from(data, position)
    start = position + _FRAME_HEAD.size
    if magic != FRAME_MAGIC or start + size > len(data):
        return None
    body = memoryview(data)[start : start + size]
    if checksum != crc32c(body, crc32c(_SEQUENCE.pack(sequence))):
        return None
    return JournalFrame(sequence, tuple(_decode(body)), start + size)


def _check_nothing_follows(data: bytes, position: int, last_sequence: int) -> None:
    candidate = data.find(FRAME_MAGIC, position)
    while candidate >= 0:
        frame = _frame_at(data, candidate)
        if frame is not None and frame.sequence > last_sequence:
            raise CorruptLog(
                f"the journal of the cluster store is damaged at byte {position}: commit "
                f"{frame.sequence} follows behind it"
            )
        candidate = data.find(FRAME_MAGIC, candidate + 1)


def _encode(operations: Iterable[JournalOperation]) -> bytes:
    out = bytearray()
    for operation in operations:
        path = operation.path.encode()
        if isinstance(operation, JournalPut):
            out += _OPERATION.pack(_PUT, operation.version, len(path), len(operation.data))
            out += path + operation.data
        else:
            out += _OPERATION.pack(_DELETE, 0, len(path), 0) + path
    return bytes(out)


def _decode(body: memoryview) -> Iterator[JournalOperation]:
    position = 0
    while position < len(body):
        kind, version, path_size, data_size = _OPERATION.unpack_from(body, position)
        position += _OPERATION.size
        path = bytes(body[position : position + path_size]).decode()
        position += path_size
        if kind == _PUT:
            yield JournalPut(path, bytes(body[position : position + data_size]), version)
        else:
            yield JournalDelete(path)
        position += data_size
