"""Records one at a time, in plain Python: for small batches, the broker's own above all.

`__consumer_offsets` and `__transaction_state` are written and replayed by a broker that has loaded
neither numba nor pyarrow, a record or a few to a batch. Everything in bulk goes through `decode`
and `encode`, which read and write the same bytes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from headrace.model.error import CorruptBatch, InvalidArgument
from headrace.records.batch import TRANSACTIONAL_BIT, Batch, build_head
from headrace.records.compression import Codec, inflate
from headrace.records.varint import MAX_VARINT_BYTES, read_varint, write_varint

# An internal batch is never near this; a damaged one must not fill the memory.
_MAX_INFLATED_BYTES = 256 * 1024 * 1024


class Record(NamedTuple):
    """One record of an internal topic. Headers are not kept: internal topics have none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Build one uncompressed batch of (key, value) pairs; the log stamps its offsets.

    >>> batch = build_batch([(b"k", b"v"), (b"gone", None)], 1_700_000_000_000)
    >>> [(record.offset, record.key, record.value) for record in iter_records(Batch(batch))]
    [(0, b'k', b'v'), (1, b'gone', None)]
    """
    if not records:
        raise InvalidArgument("a batch needs at least one record")
    parts: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        offset = _varint(delta)
        if value is None:
            value_size, value = _NULL, b""
        else:
            value_size = _varint(len(value))
        size = 3 + len(offset) + len(value_size) + len(value)
        if key is None:
            parts += (_varint(size + 1), b"\0\0", offset, _NULL, value_size, value, b"\0")
        else:
            key_size = _varint(len(key))
            size += len(key_size) + len(key)
            parts += (_varint(size), b"\0\0", offset, key_size, key, value_size, value, b"\0")
    rows = b"".join(parts)
    head = build_head(
        rows,
        attributes=TRANSACTIONAL_BIT if transactional else 0,
        last_offset_delta=len(records) - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return head + rows


_NULL: Final = b"\x01"
"""The size -1 of a key or a value that is not there."""

# The records of a batch are much alike, and so are their sizes and places.
_varint = lru_cache(maxsize=4096)(write_varint)


def iter_records(batch: Batch) -> Iterator[Record]:
    """Yield the records of a valid batch, in order.

    Raises:
        CorruptBatch: a length or a varint that does not hold.
    """
    rows: memoryview = batch.records
    if batch.compression:
        rows = inflate(Codec(batch.compression), rows, _MAX_INFLATED_BYTES)
    at = 0
    for _ in range(batch.record_count):
        length, at = read_varint(rows, at, MAX_VARINT_BYTES)
        end = at + length
        if length < 0 or end > len(rows):
            raise CorruptBatch(
                f"A record of {length} bytes does not fit in the batch at {batch.base_offset}."
            )
        timestamp_delta, at = read_varint(rows, at + 1)
        offset_delta, at = read_varint(rows, at, MAX_VARINT_BYTES)
        key, at = _read_field(rows, at, end)
        value, at = _read_field(rows, at, end)
        yield Record(
            batch.base_offset + offset_delta, batch.base_timestamp + timestamp_delta, key, value
        )
        at = end


def _read_field(rows: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(rows, at, MAX_VARINT_BYTES)
    if length < 0:
        return None, at
    if at + length > end:
        raise CorruptBatch(f"A field of {length} bytes does not fit in its record.")
    return bytes(rows[at : at + length]), at + length
