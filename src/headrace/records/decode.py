"""Record batches to Arrow columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from headrace.model.error import BatchTooLarge, InvalidArgument
from headrace.model.offset import NO_OFFSET
from headrace.records.arena import Arena
from headrace.records.batch import CODEC_MASK, TRANSACTIONAL_BIT, Buffer, view_of
from headrace.records.column import BINARY_SCHEMA, VIEW_SCHEMA
from headrace.records.heads import LOWEST_OFFSET, PAST_EVERY_OFFSET, Heads, scan_heads
from headrace.records.isolation import skip_aborted
from headrace.records.kernel.memory import Bytes, readable
from headrace.records.row_reader import RowReader

Layout = Literal["binary", "view"]

MAX_INFLATED_BYTES = 256 * 1024 * 1024
"""How much one call of `decode` inflates by default."""

LARGEST_INPUT_BYTES = 2**30 - 64
"""How much one call of `decode` looks at, and the highest limit for what it inflates. Both together
stay below 2 GiB: the offsets of a binary column, and the positions in a view, are int32."""

_NO_BYTES: Final = readable(b"")


@dataclass(frozen=True, slots=True)
class Decoded:
    """What `decode` read.

    Attributes:
        columns: one row for each record, in the order of offsets.
        next_offset: where to read on. It lies past the last row when what follows it was a control
            batch, an aborted transaction, or was compacted away. -1 when nothing was found and no
            `start_offset` was given.
        consumed_bytes: how many bytes of the input these rows and skipped batches were.
        aborted: the aborted transactions that do not end in those bytes: what to hand to the next
            call, which goes on behind them.
    """

    columns: pa.RecordBatch
    next_offset: int
    consumed_bytes: int
    aborted: Sequence[tuple[int, int]] = ()


def decode(
    data: Buffer,
    *,
    start_offset: int | None = None,
    end_offset: int | None = None,
    aborted: Iterable[tuple[int, int]] = (),
    columns: Sequence[str] | None = None,
    layout: Layout = "binary",
    verify_crc: bool = True,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
) -> Decoded:
    """Decode any number of batches, as fetched from a broker or read from a segment.

    A last batch that is cut off is left alone, as are batches past the first `max_inflated_bytes`
    of inflated records, and past 2 GiB: `consumed_bytes` and `next_offset` say where to go on.
    Records of control batches are never shown.

    Args:
        data: batches, from the first byte on. With `layout="view"` the columns keep it alive and
            it must not change.
        start_offset: leave out records before this offset. A fetch starts with a whole batch, so
            its first records may lie before what was asked for.
        end_offset: leave out records at and past this offset.
        aborted: (producer id, first offset) of the aborted transactions of a read_committed fetch.
        columns: the names of the columns to make, of `headrace.records.column.BINARY_SCHEMA`; what
            is left out costs nothing. All by default.
        layout: "binary" copies keys and values into columns that everything reads (Spark). "view"
            makes `binary_view` columns that point into `data`, or into the inflated bytes.
        verify_crc: check every batch against its CRC32C first.
        max_inflated_bytes: how many inflated bytes to hold at most.

    Raises:
        CorruptBatch, UnsupportedBatch: bytes that are no sound batches.
        BatchTooLarge: a single batch inflates past `max_inflated_bytes`.
        InvalidArgument: a column, layout or bound that cannot be meant.

    >>> from headrace.records.encode import encode
    >>> sent = pa.record_batch({"value": [b"a", None, b"c"]})
    >>> got = decode(encode(sent, timestamp_ms=0, base_offset=40).data, columns=["offset", "value"])
    >>> got.columns.to_pydict()
    {'offset': [40, 41, 42], 'value': [b'a', None, b'c']}
    >>> got.next_offset
    43
    """
    schema = _schema(columns, layout)
    if not 0 < max_inflated_bytes <= LARGEST_INPUT_BYTES:
        raise InvalidArgument(
            f"max_inflated_bytes is {max_inflated_bytes}: "
            f"it lies between 1 and {LARGEST_INPUT_BYTES}"
        )
    first = LOWEST_OFFSET if start_offset is None else start_offset
    past = PAST_EVERY_OFFSET if end_offset is None else end_offset
    heads = _scan(view_of(data), first, past)
    left: Sequence[tuple[int, int]] = ()
    transactional = bool(heads.seen_attributes & TRANSACTIONAL_BIT)
    if transactional:
        aborted = list(aborted)
        left = skip_aborted(heads, aborted)
        heads.recount()
    arena = _NO_BYTES
    if heads.seen_attributes & CODEC_MASK:
        if verify_crc:
            heads.verify_crcs()
            verify_crc = False
        batches = len(heads)
        arena = _inflate(heads, max_inflated_bytes)
        if transactional and len(heads) < batches:
            left = skip_aborted(heads, aborted)
    return Decoded(
        RowReader(heads, arena, schema, layout == "view").read(first, past, verify_crc),
        _next_offset(heads, start_offset, end_offset),
        heads.consumed_bytes,
        left,
    )


def _schema(columns: Sequence[str] | None, layout: Layout) -> pa.Schema:
    if layout not in ("binary", "view"):
        raise InvalidArgument(f"layout is 'binary' or 'view', not {layout!r}")
    schema = BINARY_SCHEMA if layout == "binary" else VIEW_SCHEMA
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise InvalidArgument(f"columns is a list of names: write [{columns!r}]")
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise InvalidArgument(
            f"there is no column {unknown[0]!r}: there are {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in dict.fromkeys(columns)])


def _scan(view: memoryview, first: int, past: int) -> Heads:
    heads = scan_heads(view[:LARGEST_INPUT_BYTES], first, past)
    if not heads and len(view) > LARGEST_INPUT_BYTES and not heads.ended:
        raise BatchTooLarge(
            f"The first batch has more than the {LARGEST_INPUT_BYTES} bytes that one call decodes."
        )
    return heads


def _inflate(heads: Heads, max_inflated_bytes: int) -> Bytes:
    arena = Arena(max_inflated_bytes)
    heads.cut(arena.fill(heads))
    heads.recount()
    return readable(arena.content)


def _next_offset(heads: Heads, start_offset: int | None, end_offset: int | None) -> int:
    start = NO_OFFSET if start_offset is None else start_offset
    found = heads.next_offset
    if found is None:
        return start
    if end_offset is not None:
        found = min(found, end_offset)
    return max(found, start)
