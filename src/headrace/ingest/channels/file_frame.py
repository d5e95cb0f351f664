"""The records that a file channel writes to its log: one per transaction.

A *put* record has the key `P`, followed by a sequence number (u64) if the channel has several
folders, and holds the events of one commit:

    u8   how headers are written: 0 none, 1 the same for all, 2 one for each event
    u32  number of events
    u32  bytes of headers
    ...  headers: JSON, an object or a list of objects
    u32  length of each body
    ...  bodies, one after the other

A *take* record has the key `T` and names the events that a commit took: for each piece the offset
of its put record, the first row and the number of rows (u64, u32, u32). Numbers are little-endian.
The checksum of the log covers both; `docs/formats/file-channel.md` shows them.
"""

import json
import struct
from array import array
from collections.abc import Iterable
from sys import byteorder
from typing import Final, NamedTuple

import numpy as np

from headrace.ingest.event import NO_HEADERS, EventBatch, Headers
from headrace.ingest.packed_bodies import PackedBodies
from headrace.model.error import CorruptLog

PUT: Final = b"P"
TAKE: Final = b"T"
_HEAD = struct.Struct("<BII")
_PIECE = struct.Struct("<QII")
_NONE, _SHARED, _EACH = 0, 1, 2


class PutRows(NamedTuple):
    """Some rows of a put record.

    Attributes:
        stripe: the number of its log. A take does not store it, because it is written to the same
            log.
    """

    offset: int
    first: int
    rows: int
    stripe: int = 0


def encode_put(batch: EventBatch) -> bytes:
    """Return the value of a put record."""
    shared = batch.same_headers
    if shared is not None and not shared:
        kind, headers = _NONE, b""
    elif shared is not None:
        kind, headers = _SHARED, json.dumps(shared).encode()
    else:
        kind, headers = _EACH, json.dumps(batch.headers).encode()
    head = _HEAD.pack(kind, len(batch), len(headers))
    packed = batch.packed
    if packed is not None:
        sizes = np.diff(packed.offsets).astype("<u4")
        return b"".join((head, headers, sizes.tobytes(), packed.content))
    lengths = array("I", map(len, batch.bodies))
    if byteorder == "big":
        lengths.byteswap()
    return b"".join((head, headers, lengths.tobytes(), *batch.bodies))


def decode_put(data: bytes) -> EventBatch:
    """Return the events of a put record.

    Raises:
        CorruptLog: the record is no put of a file channel, though its checksum is right.
    """
    try:
        kind, count, header_bytes = _HEAD.unpack_from(data)
        start = _HEAD.size + header_bytes
        sizes = np.frombuffer(data, dtype="<u4", count=count, offset=start)
        offsets = np.full(count + 1, start + 4 * count, dtype=np.int64)
        offsets[1:] += np.cumsum(sizes, dtype=np.int64)
        if int(offsets[-1]) != len(data):
            raise CorruptLog("a put record of a file channel has a wrong size")
        bodies = PackedBodies(data, offsets)
        if kind == _NONE:
            return EventBatch.of_packed(bodies)
        headers: Headers | list[Headers] = json.loads(data[_HEAD.size : start])
    except (struct.error, ValueError) as error:
        raise CorruptLog(f"a put record of a file channel cannot be read: {error}") from error
    if isinstance(headers, dict):
        return EventBatch.of_packed(bodies, headers or NO_HEADERS)
    if len(headers) != count:
        raise CorruptLog("a put record of a file channel has a wrong number of headers")
    return EventBatch.of_packed(bodies, headers)


def put_count(data: bytes) -> int:
    """Return how many events a put record holds, without decoding them.

    Raises:
        CorruptLog: the record is no put of a file channel.
    """
    try:
        _, count, _ = _HEAD.unpack_from(data)
    except struct.error as error:
        raise CorruptLog(f"a put record of a file channel cannot be read: {error}") from error
    return int(count)


def encode_take(pieces: Iterable[PutRows]) -> bytes:
    """Return the value of a take record."""
    return b"".join(_PIECE.pack(*piece[:3]) for piece in pieces)


def decode_take(data: bytes) -> list[PutRows]:
    """Return the rows that a take record names.

    Raises:
        CorruptLog: the record has a wrong size.
    """
    if len(data) % _PIECE.size:
        raise CorruptLog("a take record of a file channel has a wrong size")
    return [PutRows(*each) for each in _PIECE.iter_unpack(data)]
