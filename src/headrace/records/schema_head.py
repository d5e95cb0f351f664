"""The heads with which keys or values name their schemas, of all records of a batch.

Byte format of a head: 00 and an id of four bytes, or 01 and a GUID of 16. It begins the key or the
value, or is in a header `__key_schema_id` or `__value_schema_id`, which comes first.

Plain Python reads them, some microseconds for each record and each header. A few kilobytes of gzip
hold millions of either, so both are bounded.
"""

from typing import Final, NamedTuple

from headrace.model.error import BatchTooLarge, InvalidRecord
from headrace.records.varint import read_varint

_ID_BYTES = 5
_GUID_BYTES = 17
_VALUE_HEADER = b"__value_schema_id"
_KEY_HEADER = b"__key_schema_id"
_MOST_HEADERS: Final = 100


class SchemaHeads(NamedTuple):
    """Which schemas the keys or the values of a batch name.

    Attributes:
        named: each head, with the numbers of the records that have it.
        missing: the numbers of the records that have none. Null has none and needs none.
    """

    named: dict[bytes, list[int]]
    missing: list[int]


def schema_heads(rows: memoryview, count: int, *, key: bool, most_read: int) -> SchemaHeads:
    """Return the heads of the keys or values of `count` records.

    Args:
        rows: inflated records whose framing is sound (`framing.inspect`).
        most_read: how many records and headers are read, together.

    Raises:
        BatchTooLarge: it has more of them.
        InvalidRecord: a record has more than a hundred headers.
    """
    left = most_read - count
    if left < 0:
        raise _too_many(most_read)
    named: dict[bytes, list[int]] = {}
    missing: list[int] = []
    wanted = _KEY_HEADER if key else _VALUE_HEADER
    at = 0
    for number in range(count):
        length, at = read_varint(rows, at)
        end = at + length
        _, at = read_varint(rows, at + 1)
        _, at = read_varint(rows, at)
        key_size, key_at = read_varint(rows, at)
        value_size, value_at = read_varint(rows, key_at + max(key_size, 0))
        size, at = (key_size, key_at) if key else (value_size, value_at)
        if size >= 0:
            headers, headers_at = read_varint(rows, value_at + max(value_size, 0))
            if headers > _MOST_HEADERS:
                raise _too_many_headers(number, headers)
            left -= headers
            if left < 0:
                raise _too_many(most_read)
            head = _header_head(rows, headers_at, headers, wanted)
            head = head or _head(rows[at : at + size])
            if head is None:
                missing.append(number)
            else:
                named.setdefault(head, []).append(number)
        at = end
    return SchemaHeads(named, missing)


def _header_head(rows: memoryview, at: int, headers: int, wanted: bytes) -> bytes | None:
    for _ in range(headers):
        size, at = read_varint(rows, at)
        name = rows[at : at + size]
        at += size
        size, at = read_varint(rows, at)
        if name == wanted and size >= 0 and (head := _head(rows[at : at + size])) is not None:
            return head
        at += max(size, 0)
    return None


def _head(data: memoryview) -> bytes | None:
    if not len(data) or data[0] > 1:
        return None
    size = _GUID_BYTES if data[0] else _ID_BYTES
    return bytes(data[:size]) if len(data) >= size else None


def _too_many(most: int) -> BatchTooLarge:
    return BatchTooLarge(
        f"a batch has more than {most:,} records and headers, which is too many to look for their "
        "schemas: send smaller batches"
    )


def _too_many_headers(number: int, headers: int) -> InvalidRecord:
    most = f"a topic that checks schemas takes {_MOST_HEADERS}"
    return InvalidRecord(
        f"record {number} has {headers:,} headers, and {most}: send fewer",
        [(number, f"it has {headers:,} headers, and {most}")],
    )
