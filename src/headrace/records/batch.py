"""The head of a record batch (Kafka's message format v2), and everything a broker does with it.

The broker's unit of work is the batch: it checks a head, patches two fields and moves the bytes on.
This file therefore imports neither numba nor pyarrow and never looks at a record. The byte layout
stands in `docs/formats/record-batch.md`.

    0        8        12       16      17    21           23            27         57       61
    | base   | length | leader | magic | CRC | attributes | last offset | times,   | record | rows
    | offset |        | epoch  |       |     |            | delta       | producer | count  | ...

`length` counts the bytes behind itself, and the CRC covers the bytes from 21 to the end. So base
offset and leader epoch, which the broker sets, lie outside the CRC: `stamp` changes both without
reading the body.
"""

from collections.abc import Iterator
from struct import Struct
from typing import TypeAlias

from crc32c import crc32c

from headrace.model.error import (
    CorruptBatch,
    InvalidArgument,
    InvalidRecord,
    UnsupportedBatch,
)

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES = 61
LOG_OVERHEAD = 12
"""The base offset and the length itself: what `length` does not count."""

BASE_OFFSET_AT = 0
LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
RECORD_COUNT_AT = 57
RECORDS_AT = HEADER_BYTES

MAGIC = 2
MAX_INT32 = 2**31 - 1

CODEC_MASK = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

CREATE_TIME = 0
LOG_APPEND_TIME = 1

LAST_CODEC = 4  # zstd; headrace.records.compression names them all
HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")
_PRODUCER = Struct(">qhi")
_FLAGS_AT = ATTRIBUTES_AT + 1  # all flags are in the lower byte of the attributes
# What the CRC covers of the head: from the attributes to the record count.
_CHECKED = Struct(">hiqqqhii")
HEAD = Struct(">qii")
_LENGTH = Struct(">i")
_PREFIX_BYTES = MAGIC_AT + 1
assert HEADER.size == HEADER_BYTES
assert _CHECKED.size == HEADER_BYTES - ATTRIBUTES_AT


class Batch:
    """One batch inside a buffer that is kept, not copied.

    Making one reads the 61 bytes of the head in a single call, so every field is a plain attribute
    afterwards. It proves only that a head is there: `validate` says whether it is valid.
    The fields are those of the moment it was made; a buffer written to later does not show in them.

    `buffer` is a memoryview of single bytes, or anything of which one can be made.

    Raises:
        CorruptBatch: fewer than 61 bytes follow `position`.

    >>> batch = Batch(build_head(b"", base_offset=7, last_offset_delta=2, record_count=0))
    >>> batch.base_offset, batch.last_offset, batch.size_bytes
    (7, 9, 61)
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    buffer: memoryview
    position: int
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        if type(buffer) is not memoryview:
            buffer = view_of(buffer)
        if position < 0 or len(buffer) - position < HEADER_BYTES:
            raise _too_short(len(buffer), position)
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            self.length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, position)

    @property
    def size_bytes(self) -> int:
        """The whole batch, head and records."""
        return LOG_OVERHEAD + self.length

    @property
    def end(self) -> int:
        """Where in the buffer the next batch starts."""
        return self.position + LOG_OVERHEAD + self.length

    @property
    def compression(self) -> int:
        """The number of the compression codec; `headrace.records.compression.Codec` names it."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """`CREATE_TIME` or `LOG_APPEND_TIME`; with the latter every record has `max_timestamp`."""
        return LOG_APPEND_TIME if self.attributes & APPEND_TIME_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Holds a marker for the log itself (see `control`), which no reader is shown."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """`base_timestamp` is the time after which compaction drops its tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or -1 without one. After 2^31-1 comes 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return add_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def data(self) -> memoryview:
        """The bytes of the whole batch."""
        return self.buffer[self.position : self.end]

    @property
    def records(self) -> memoryview:
        """The bytes behind the head, still compressed when the batch is."""
        return self.buffer[self.position + HEADER_BYTES : self.end]

    def validate(self, *, from_client: bool = False, verify_crc: bool = True) -> None:
        """Raise an error that names the first thing wrong with this batch; return when it is sound.

        A stored batch may hold fewer records than its offsets span, because compaction took some.
        One that a client sends must be dense, must not be a control batch, and a producer id in it
        must come with a sequence: the rules of Kafka's own log validator.

        Args:
            from_client: also apply the rules for what a producer may send.
            verify_crc: False skips the only check that reads the body.

        Raises:
            UnsupportedBatch: magic 0 or 1, an unknown magic or codec.
            CorruptBatch: length, CRC or counts do not hold.
            InvalidRecord: a sound batch that a client may not send.
        """
        if self.magic != MAGIC:
            raise self._unsupported(
                f"has magic {self.magic}, and only magic 2 is taken (clients since Kafka 0.11)"
            )
        if self.length < HEADER_BYTES - LOG_OVERHEAD:
            raise self._corrupt(f"claims a length of {self.length} bytes, less than its own head")
        end = self.position + LOG_OVERHEAD + self.length
        if end > len(self.buffer):
            raise self._corrupt(
                f"claims {self.size_bytes} bytes, "
                f"but only {len(self.buffer) - self.position} are there"
            )
        if verify_crc:
            actual = crc32c(self.buffer[self.position + ATTRIBUTES_AT : end])
            if actual != self.crc:
                raise self._corrupt(
                    f"has CRC32C {actual:#010x}, but its head says {self.crc:#010x}"
                )
        if self.attributes & CODEC_MASK > LAST_CODEC:
            raise self._unsupported(f"has compression codec {self.compression}, which is not known")
        span = self.last_offset_delta + 1
        if span <= 0 or not 0 <= self.record_count <= span:
            raise self._corrupt(
                f"counts {self.record_count} records with a last offset delta of "
                f"{self.last_offset_delta}"
            )
        if from_client and (
            self.record_count != span
            or self.producer_id >= 0
            or self.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
        ):
            self._validate_client(span)

    def _validate_client(self, span: int) -> None:
        if self.record_count != span:
            raise self._invalid(
                f"counts {self.record_count} records but spans {span} offsets: "
                "a producer's batch has no gaps"
            )
        if self.attributes & CONTROL_BIT:
            raise self._invalid("is a control batch, which only a coordinator may write")
        if self.producer_id >= 0:
            if self.base_sequence < 0 or self.producer_epoch < 0:
                raise self._invalid(
                    f"has producer id {self.producer_id} without an epoch and a sequence "
                    f"(epoch {self.producer_epoch}, sequence {self.base_sequence})"
                )
        elif self.attributes & TRANSACTIONAL_BIT:
            raise self._invalid("is transactional but has no producer id")

    def _where(self) -> str:
        return f"The batch at byte {self.position} (base offset {self.base_offset})"

    def _corrupt(self, what: str) -> CorruptBatch:
        return CorruptBatch(f"{self._where()} {what}.")

    def _unsupported(self, what: str) -> UnsupportedBatch:
        return UnsupportedBatch(f"{self._where()} {what}.")

    def _invalid(self, what: str) -> InvalidRecord:
        return InvalidRecord(f"{self._where()} {what}.")

    def __repr__(self) -> str:
        return (
            f"<Batch at {self.position}: offsets {self.base_offset}..{self.last_offset}, "
            f"{self.record_count} records, {self.size_bytes} bytes>"
        )


class BatchIterator(Iterator[Batch]):
    """The whole batches of a buffer, one after the other; made by `iter_batches`.

    `consumed_bytes` is where the batches handed out so far end, counted from the buffer's start.
    """

    __slots__ = ("_view", "consumed_bytes")

    def __init__(self, view: memoryview, position: int) -> None:
        self._view = view
        self.consumed_bytes = position

    def __next__(self) -> Batch:
        position = self.consumed_bytes
        left = len(self._view) - position
        if left < HEADER_BYTES:
            self._expect_cut_off(position, left)
            raise StopIteration
        batch = Batch(self._view, position)
        if batch.magic != MAGIC or batch.length < HEADER_BYTES - LOG_OVERHEAD:
            batch.validate()
        size = LOG_OVERHEAD + batch.length
        if size > left:
            raise StopIteration
        self.consumed_bytes = position + size
        return batch

    def _expect_cut_off(self, position: int, left: int) -> None:
        """Distinguish a batch that is cut off from one whose length or magic cannot be true."""
        if left < _PREFIX_BYTES:
            return
        magic = self._view[position + MAGIC_AT]
        if magic != MAGIC:
            raise UnsupportedBatch(
                f"The batch at byte {position} has magic {magic}, and only magic 2 is taken."
            )
        (length,) = _LENGTH.unpack_from(self._view, position + LENGTH_AT)
        if length < HEADER_BYTES - LOG_OVERHEAD:
            raise CorruptBatch(
                f"The batch at byte {position} claims a length of {length} bytes, "
                "less than its own head."
            )


def iter_batches(buffer: Buffer, position: int = 0) -> BatchIterator:
    """Walk the batches of a fetched or stored buffer, from head to head, without checking CRCs.

    A fetch ends where its byte budget ends, so the last batch may be cut off: the walk stops before
    it, and `consumed_bytes` of the iterator tells where.

    Raises:
        CorruptBatch, UnsupportedBatch: a head from which the next cannot be found.

    >>> one = build_head(b"", last_offset_delta=0, record_count=0)
    >>> batches = iter_batches(one + one[:20])
    >>> len(list(batches)), batches.consumed_bytes
    (1, 61)
    """
    view = view_of(buffer)
    if not 0 <= position <= len(view):
        raise InvalidArgument(
            f"position {position} lies outside the buffer: it has {len(view)} bytes"
        )
    return BatchIterator(view, position)


def stamp(
    batch: Batch, base_offset: int, leader_epoch: int, append_time_ms: int | None = None
) -> bytes:
    """Return the new head of a batch being appended: write it, then `batch.data[len(head):]`.

    Without an append time this is 16 bytes, none under the CRC. With one (LogAppendTime topics) it
    is all 61: the timestamp type and the max timestamp change, and with them the CRC. The body is
    read for that but neither copied nor changed. The batch must be valid already.
    """
    if append_time_ms is None:
        return HEAD.pack(base_offset, batch.length, leader_epoch)
    checked = _CHECKED.pack(
        batch.attributes | APPEND_TIME_BIT,
        batch.last_offset_delta,
        batch.base_timestamp,
        append_time_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    )
    crc = crc32c(batch.records, crc32c(checked))
    return b"".join(
        (HEAD.pack(base_offset, batch.length, leader_epoch), b"\x02", _CRC.pack(crc), checked)
    )


def assign_producer(
    data: memoryview, producer_id: int, epoch: int, sequence: int, *, transactional: bool = False
) -> None:
    """Write producer id, epoch and base sequence into the batch, with a new CRC.

    A producer knows the sequence of a batch when it sends it, long after it was encoded, and gives
    all it has left a new one when it starts over with another epoch (KIP-360).

    Args:
        data: one whole batch in memory that can be written to.
    """
    flags = data[_FLAGS_AT] & ~TRANSACTIONAL_BIT
    data[_FLAGS_AT] = flags | TRANSACTIONAL_BIT if transactional else flags
    _PRODUCER.pack_into(data, PRODUCER_ID_AT, producer_id, epoch, sequence)
    _CRC.pack_into(data, CRC_AT, crc32c(data[ATTRIBUTES_AT:]))


def build_head(
    records: Buffer,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    last_offset_delta: int,
    base_timestamp: int = -1,
    max_timestamp: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    record_count: int,
) -> bytes:
    """Return the 61 bytes that go before `records`, compressed already if `attributes` say so."""
    checked = _CHECKED.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    length = HEADER_BYTES - LOG_OVERHEAD + len(records)
    crc = crc32c(records, crc32c(checked))
    return b"".join(
        (HEAD.pack(base_offset, length, leader_epoch), b"\x02", _CRC.pack(crc), checked)
    )


def add_sequence(sequence: int, count: int) -> int:
    """Return the sequence `count` records later, or earlier: sequences have 31 bits and wrap.

    >>> add_sequence(2**31 - 1, 1)
    0
    """
    return (sequence + count) & MAX_INT32


def is_before(sequence: int, other: int) -> bool:
    """Return whether a sequence comes before another of the same producer, at most half of all
    sequences apart.

    >>> is_before(2**31 - 1, 0), is_before(0, 2**31 - 1), is_before(3, 3)
    (True, False, False)
    """
    return 0 < (other - sequence) & MAX_INT32 <= MAX_INT32 // 2


def view_of(buffer: Buffer) -> memoryview:
    """Return `buffer` as a flat view of unsigned bytes, as every function here slices it."""
    try:
        view = memoryview(buffer)
        return view if view.format == "B" and view.ndim == 1 else view.cast("B")
    except TypeError as error:
        raise InvalidArgument(
            f"a batch is read from contiguous bytes (bytes, bytearray or memoryview), "
            f"not from {type(buffer).__name__}"
        ) from error


def _too_short(buffer_bytes: int, position: int) -> CorruptBatch:
    return CorruptBatch(
        f"A batch head takes {HEADER_BYTES} bytes, but the buffer of {buffer_bytes} bytes "
        f"has only {max(0, buffer_bytes - position)} from byte {position} on."
    )
