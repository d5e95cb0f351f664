"""Arrow columns to record batches."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.error import BatchTooLarge, InvalidArgument
from headrace.records.batch import (
    HEADER_BYTES,
    MAX_INT32,
    TRANSACTIONAL_BIT,
    Buffer,
    add_sequence,
    build_head,
)
from headrace.records.compression import Codec, check_level, codec_named, compress
from headrace.records.input import (
    BytesInput,
    HeadersInput,
    bytes_input,
    check_names,
    headers_input,
    timestamps_input,
)
from headrace.records.kernel import write as kernel
from headrace.records.kernel.memory import Int64s

MAX_BATCH_BYTES = 1024 * 1024
"""Just below Kafka's default of max.message.bytes, so that a default broker takes every batch."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """What `encode` wrote.

    Attributes:
        batches: the bytes of each batch, in order. A produce request takes one for each partition.
            They can be written to: `records.batch.assign_producer` does.
        record_count: how many records they hold.
        next_offset: the base offset that follows on them.
        next_sequence: the sequence that follows on them, or -1 without sequences.
    """

    batches: list[memoryview]
    record_count: int
    next_offset: int
    next_sequence: int

    @property
    def data(self) -> bytes:
        """All batches, one behind the other. A copy."""
        return b"".join(self.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What all heads of one call have in common."""

    codec: Codec
    level: int | None
    base_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool

    def build(self, records: Buffer, row: list[int], first_row: int) -> bytes:
        count = row[kernel.COUNT]
        sequence = self.base_sequence
        return build_head(
            records,
            base_offset=self.base_offset + first_row,
            leader_epoch=self.leader_epoch,
            attributes=self.codec | (TRANSACTIONAL_BIT if self.transactional else 0),
            last_offset_delta=count - 1,
            base_timestamp=row[kernel.BASE_TIMESTAMP],
            max_timestamp=row[kernel.MAX_TIMESTAMP],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence if sequence < 0 else add_sequence(sequence, first_row),
            record_count=count,
        )


def encode(
    columns: pa.RecordBatch | pa.Table,
    *,
    timestamp_ms: int | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    codec: str | Codec = "none",
    level: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> Encoded:
    """Encode records as batches of at most `max_batch_bytes` each, before compression.

    A record that is larger than that alone gets a batch of its own: whether the log takes it is for
    its max.message.bytes to say, and compression may yet make it fit.

    Args:
        columns: `key`, `value`, `timestamp` and `headers`, all optional, of any Arrow type that
            holds bytes or strings; slices and chunked tables too. A column that is absent is null
            in every record. The other columns that `decode` makes are allowed and not looked at.
        timestamp_ms: for records whose `timestamp` is null or absent.
        max_batch_bytes: where a batch is full.
        codec: none, gzip, snappy, lz4 or zstd.
        level: of gzip (1 to 9), lz4 (1 to 17) or zstd (-131072 to 22).
        base_offset: of the first record. A broker assigns its own.
        leader_epoch: likewise.
        producer_id, producer_epoch, base_sequence: of an idempotent producer, all three or none.
        transactional: the records belong to the producer's open transaction.

    Raises:
        InvalidArgument: columns or numbers that cannot be meant.
        BatchTooLarge: a record of more than 2 GiB.

    >>> encoded = encode(pa.record_batch({"value": ["hello", "world"]}), timestamp_ms=0)
    >>> len(encoded.batches), encoded.record_count, encoded.next_offset
    (1, 2, 2)
    """
    check_names(columns)
    _check_numbers(max_batch_bytes, base_offset, leader_epoch)
    _check_producer(producer_id, producer_epoch, base_sequence, transactional)
    chosen = codec_named(codec)
    head = _Head(
        codec=chosen,
        level=check_level(chosen, level),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    rows = columns.num_rows
    return Encoded(
        _write(columns, timestamp_ms, max_batch_bytes, head) if rows else [],
        rows,
        base_offset + rows,
        base_sequence if base_sequence < 0 else add_sequence(base_sequence, rows),
    )


def _write(
    columns: pa.RecordBatch | pa.Table, timestamp_ms: int | None, max_batch_bytes: int, head: _Head
) -> list[memoryview]:
    keys = bytes_input(columns, "key")
    values = bytes_input(columns, "value")
    headers = headers_input(columns)
    timestamps, one_timestamp = timestamps_input(columns, timestamp_ms)
    sizes = (
        columns.num_rows,
        headers.count,
        keys.content_bytes
        + values.content_bytes
        + headers.keys.content_bytes
        + headers.values.content_bytes,
    )
    batches = kernel.batch_limit(*sizes, max_batch_bytes)
    out = pa.allocate_buffer(kernel.room_bytes(*sizes, batches))
    table = np.empty((batches, kernel.TABLE_COLUMNS), dtype=np.int64)
    result = np.zeros(kernel.RESULT_SLOTS, dtype=np.int64)
    _run(
        (columns.num_rows, max_batch_bytes, timestamps, one_timestamp),
        (keys, values, headers),
        (np.frombuffer(out, dtype=np.uint8), table, result),
    )
    view = memoryview(out).cast("B")
    written = table[: result[kernel.BATCHES]].tolist()
    if head.codec is Codec.NONE:
        return _in_place(view, written, head)
    return _compressed(view, written, head)


def _run(
    rows: tuple[int, int, Int64s, bool],
    inputs: tuple[BytesInput, BytesInput, HeadersInput],
    outputs: tuple[np.ndarray, Int64s, Int64s],
) -> None:
    keys, values, headers = inputs
    kernel.write_rows(
        *rows,
        keys.index,
        keys.data,
        keys.valid,
        keys.bit,
        values.index,
        values.data,
        values.valid,
        values.bit,
        headers.index,
        headers.valid,
        headers.bit,
        headers.keys.index,
        headers.keys.data,
        headers.values.index,
        headers.values.data,
        headers.values.valid,
        headers.values.bit,
        *outputs,
    )
    result = outputs[2]
    error, row = int(result[kernel.ERROR]), int(result[kernel.ERROR_ROW])
    if error == kernel.TOO_LARGE:
        raise BatchTooLarge(f"Row {row} is a record of more than 2 GiB, which no batch can hold.")
    if error != kernel.OK:
        raise InvalidArgument(f"row {row} has offsets that lie outside its column's data")


def _in_place(view: memoryview, written: list[list[int]], head: _Head) -> list[memoryview]:
    """Put each head into the room the kernel left for it."""
    batches = []
    first_row = 0
    for row in written:
        start, end = row[kernel.START], row[kernel.END]
        view[start - HEADER_BYTES : start] = head.build(view[start:end], row, first_row)
        batches.append(view[start - HEADER_BYTES : end])
        first_row += row[kernel.COUNT]
    return batches


def _compressed(view: memoryview, written: list[list[int]], head: _Head) -> list[memoryview]:
    batches = []
    first_row = 0
    for row in written:
        records = compress(head.codec, view[row[kernel.START] : row[kernel.END]], head.level)
        batch = bytearray(HEADER_BYTES + len(records))
        batch[:HEADER_BYTES] = head.build(records, row, first_row)
        batch[HEADER_BYTES:] = records
        batches.append(memoryview(batch))
        first_row += row[kernel.COUNT]
    return batches


def _check_numbers(max_batch_bytes: int, base_offset: int, leader_epoch: int) -> None:
    if not HEADER_BYTES < max_batch_bytes <= MAX_INT32:
        raise InvalidArgument(
            f"max_batch_bytes is {max_batch_bytes}: it lies between {HEADER_BYTES + 1} "
            f"and {MAX_INT32}"
        )
    if base_offset < 0:
        raise InvalidArgument(f"base_offset is {base_offset}: offsets start at 0")
    if not -1 <= leader_epoch <= MAX_INT32:
        raise InvalidArgument(f"leader_epoch is {leader_epoch}: it is -1 or an int32 from 0 on")


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool
) -> None:
    numbers = (producer_id, producer_epoch, base_sequence)
    if any(number >= 0 for number in numbers) and not (
        0 <= producer_id < 2**63 and 0 <= producer_epoch < 2**15 and 0 <= base_sequence <= MAX_INT32
    ):
        raise InvalidArgument(
            f"an idempotent producer has an id, an epoch and a sequence, all from 0 on: "
            f"not {producer_id}, {producer_epoch} and {base_sequence}"
        )
    if transactional and producer_id < 0:
        raise InvalidArgument("a transactional batch needs a producer id, an epoch and a sequence")
