"""What a file channel writes to its log: one record for each transaction.

A *put* record has the key `P`, with a sequence number (u64) behind it where a channel has several
folders, and holds the events of one commit:

    u8   how headers are written: 0 none, 1 the same for all, 2 one for each event
    u32  number of events
    u32  bytes of headers
    ...  headers: JSON, an object or a list of objects
    u32  length of each body
    ...  bodies, one behind the other

A *take* record has the key `T` and names what a commit took: for each piece the offset of its put
record, the first row and the number of rows (u64, u32, u32). Numbers are little-endian. The log's
own checksum covers both; `docs/formats/file-channel.md` draws them.
"""

import json
import struct
from array import array
from collections.abc import Iterable
from itertools import accumulate, pairwise
from sys import byteorder
from typing import Final, NamedTuple

from headrace.ingest.event import NO_HEADERS, Batch, Headers
from headrace.model.error import CorruptLog

PUT: Final = b"P"
TAKE: Final = b"T"
_HEAD = struct.Struct("<BII")
_PIECE = struct.Struct("<QII")
_NONE, _SHARED, _EACH = 0, 1, 2


class PutRows(NamedTuple):
    """Some rows of a put record. `stripe` is the log it is in; a take does not say so, because it
    is written to the same one."""

    offset: int
    first: int
    rows: int
    stripe: int = 0


def encode_put(batch: Batch) -> bytes:
    shared = batch.same_headers
    if shared is not None and not shared:
        kind, headers = _NONE, b""
    elif shared is not None:
        kind, headers = _SHARED, json.dumps(shared).encode()
    else:
        kind, headers = _EACH, json.dumps(batch.headers).encode()
    lengths = array("I", map(len, batch.bodies))
    if byteorder == "big":
        lengths.byteswap()
    head = _HEAD.pack(kind, len(batch), len(headers))
    return b"".join((head, headers, lengths.tobytes(), *batch.bodies))


def decode_put(data: bytes) -> Batch:
    """
    Raises:
        CorruptLog: the record is none of ours, though its checksum holds.
    """
    try:
        kind, count, header_bytes = _HEAD.unpack_from(data)
        start = _HEAD.size + header_bytes
        lengths = array("I")
        lengths.frombytes(data[start : start + 4 * count])
        if byteorder == "big":
            lengths.byteswap()
        first = start + 4 * count
        if len(lengths) != count or first + sum(lengths) != len(data):
            raise CorruptLog("a put record of a file channel has not the size it claims")
        bodies = [data[a:b] for a, b in pairwise(accumulate(lengths, initial=first))]
        if kind == _NONE:
            return Batch.plain(bodies)
        headers: Headers | list[Headers] = json.loads(data[_HEAD.size : start])
    except (struct.error, ValueError) as error:
        raise CorruptLog(f"a put record of a file channel cannot be read: {error}") from error
    if isinstance(headers, dict):
        return Batch.plain(bodies, headers or NO_HEADERS)
    if len(headers) != count:
        raise CorruptLog("a put record of a file channel has not as many headers as events")
    return Batch(bodies, headers)


def put_count(data: bytes) -> int:
    """How many events a put record holds, without reading them."""
    try:
        _, count, _ = _HEAD.unpack_from(data)
    except struct.error as error:
        raise CorruptLog(f"a put record of a file channel cannot be read: {error}") from error
    return int(count)


def encode_take(pieces: Iterable[PutRows]) -> bytes:
    return b"".join(_PIECE.pack(*piece[:3]) for piece in pieces)


def decode_take(data: bytes) -> list[PutRows]:
    if len(data) % _PIECE.size:
        raise CorruptLog("a take record of a file channel has not the size it should")
    return [PutRows(*each) for each in _PIECE.iter_unpack(data)]
