"""Makes a stored batch one that a producer may send.

A broker takes a batch from a producer only if its records are numbered without gaps and have the
time of their creation. Nearly every stored batch is like that, and is copied as bytes.

Rule 1: a batch that lost records to compaction, that has the time of its append, or of which only
        the later records are wanted, is written again: each record's bytes from the key to the last
        header are copied, only its numbers before them change.
Rule 2: a record's time is what a reader of the source sees.
"""

from struct import pack_into
from typing import Final

from headrace.model.error import CorruptBatch
from headrace.model.ids import NO_LEADER_EPOCH
from headrace.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    Batch,
    build_head,
)
from headrace.records.compression import Codec, compress, inflate
from headrace.records.varint import MAX_VARINT_BYTES, read_varint, write_varint

MAX_INFLATED_BYTES: Final = 128 << 20
"""A batch whose records take more memory than this is refused."""


def dense_batch(batch: Batch, first_offset: int) -> memoryview | None:
    """Return the records from an offset on as a batch for a producer; None if there are none.

    The bytes can be written to. They are those of `batch` itself if nothing must change.

    Args:
        batch: one that `validate` accepts, in memory that can be written to.

    Raises:
        CorruptBatch: its records do not hold what its head says.
        BatchTooLarge: see `MAX_INFLATED_BYTES`.
    """
    if not batch.record_count or batch.last_offset < first_offset:
        return None
    if (
        batch.record_count != batch.last_offset_delta + 1
        or batch.timestamp_type == LOG_APPEND_TIME
        or batch.base_offset < first_offset
    ):
        return _rewritten(batch, first_offset)
    data = batch.data
    pack_into(">i", data, LEADER_EPOCH_AT, NO_LEADER_EPOCH)
    # Compaction's note of when its tombstones may go is about the source alone.
    pack_into(">h", data, ATTRIBUTES_AT, batch.attributes & CODEC_MASK)
    return data


def _rewritten(batch: Batch, first_offset: int) -> memoryview | None:
    codec = Codec(batch.compression)
    rows = batch.records
    if codec is not Codec.NONE:
        rows = inflate(codec, rows, MAX_INFLATED_BYTES)
    appended = batch.timestamp_type == LOG_APPEND_TIME
    written = bytearray()
    count = 0
    base_ms = newest_ms = batch.max_timestamp
    at = 0
    for _ in range(batch.record_count):
        length, at = read_varint(rows, at, MAX_VARINT_BYTES)
        end = at + length
        if length < 1 or end > len(rows):
            raise CorruptBatch(
                f"A record of {length} bytes does not fit in the batch at {batch.base_offset}."
            )
        delta_ms, rest = read_varint(rows, at + 1)
        offset_delta, rest = read_varint(rows, rest, MAX_VARINT_BYTES)
        if rest > end:
            raise CorruptBatch(f"A record of the batch at {batch.base_offset} ends in its numbers.")
        if batch.base_offset + offset_delta >= first_offset:
            time_ms = batch.max_timestamp if appended else batch.base_timestamp + delta_ms
            if not count:
                base_ms = newest_ms = time_ms
            newest_ms = max(newest_ms, time_ms)
            numbers = write_varint(time_ms - base_ms) + write_varint(count)
            written += write_varint(1 + len(numbers) + end - rest)
            written.append(rows[at])
            written += numbers
            written += rows[rest:end]
            count += 1
        at = end
    if not count:
        return None
    packed = written if codec is Codec.NONE else compress(codec, written)
    head = build_head(
        packed,
        attributes=int(codec),
        last_offset_delta=count - 1,
        base_timestamp=base_ms,
        max_timestamp=newest_ms,
        record_count=count,
    )
    return memoryview(bytearray(head) + packed)
