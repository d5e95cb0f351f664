"""Decodes fetched ranges into columns of a bounded number of rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.client.error import DamagedBatch
from headrace.client.read.cursor import FetchedRange
from headrace.model.error import BatchTooLarge, PeerError
from headrace.model.ids import TopicPartition
from headrace.records.batch import iter_batches
from headrace.records.column import BINARY_SCHEMA, VIEW_SCHEMA
from headrace.records.decode import LARGEST_INPUT_BYTES, Decoded, Layout, decode

_INFLATE_BYTES: Final = 64 * 1024 * 1024
"""How many bytes are decompressed at once, unless a single batch needs more."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records of one partition, in the order of their offsets. Never empty.

    Attributes:
        columns: one row per record.
        next_offset: where to continue after these records. It is larger than the last offset plus
            one when aborted or compacted records or transaction markers follow.
    """

    partition: TopicPartition
    columns: pa.RecordBatch
    next_offset: int


@dataclass(frozen=True, slots=True)
class ChunkDecoder:
    """How fetched ranges are decoded into chunks.

    Attributes:
        columns: the names of the columns to decode.
        layout: "view" to let keys and values point into the fetched bytes.
        rows: the most rows of a chunk.
        done: called with the number of fetched bytes that are no longer needed.
    """

    columns: Sequence[str]
    layout: Layout
    rows: int
    done: Callable[[int], None]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every chunk."""
        every = BINARY_SCHEMA if self.layout == "binary" else VIEW_SCHEMA
        return pa.schema([every.field(name) for name in self.columns])

    def chunks(self, fetched: FetchedRange) -> Iterator[Chunk]:
        """Yield all chunks of a fetched range. Each is decoded when the caller asks for it.

        Raises:
            DamagedBatch: after the chunks of the batches before it.
        """
        data, aborted, offset = fetched.data, fetched.aborted, fetched.offset
        left = len(data)
        try:
            while len(data):
                try:
                    decoded = self._decode(data, aborted, offset, fetched.end)
                except PeerError as error:
                    good, reason = self._before_damage(data, aborted, offset, fetched.end, error)
                    if good is not None:
                        yield from self._cut(fetched.partition, good, good.next_offset)
                        offset = good.next_offset
                    raise DamagedBatch(fetched.partition, offset, reason) from error
                if not decoded.consumed_bytes:
                    break
                data, aborted = data[decoded.consumed_bytes :], decoded.aborted
                offset = decoded.next_offset if len(data) else fetched.next_offset
                if self.layout == "binary":  # views keep the bytes they point into
                    left -= decoded.consumed_bytes
                    self.done(decoded.consumed_bytes)
                yield from self._cut(fetched.partition, decoded, offset)
        finally:
            self.done(left)

    def _decode(
        self,
        data: memoryview,
        aborted: Sequence[tuple[int, int]],
        offset: int,
        end: int | None,
        max_inflated_bytes: int = _INFLATE_BYTES,
    ) -> Decoded:
        try:
            return decode(
                data,
                start_offset=offset,
                end_offset=end,
                aborted=aborted,
                columns=self._decoded_columns,
                layout=self.layout,
                max_inflated_bytes=max_inflated_bytes,
            )
        except BatchTooLarge:
            if max_inflated_bytes == LARGEST_INPUT_BYTES:
                raise
            return self._decode(data, aborted, offset, end, LARGEST_INPUT_BYTES)

    @property
    def _decoded_columns(self) -> list[str]:
        """The columns to decode. Offsets are always decoded: they say where a chunk ends."""
        return list(dict.fromkeys((*self.columns, "offset")))

    def _cut(self, partition: TopicPartition, decoded: Decoded, past: int) -> Iterator[Chunk]:
        """Slice decoded rows into chunks without a copy. The last one's `next_offset` is `past`."""
        columns = decoded.columns
        shown = columns if "offset" in self.columns else columns.select(list(self.columns))
        for first in range(0, columns.num_rows, self.rows):
            rows = shown.slice(first, self.rows)
            last = first + self.rows >= columns.num_rows
            following = past if last else columns["offset"][first + self.rows].as_py()
            yield Chunk(partition, rows, following)

    def _before_damage(
        self,
        data: memoryview,
        aborted: Sequence[tuple[int, int]],
        offset: int,
        end: int | None,
        error: PeerError,
    ) -> tuple[Decoded | None, str]:
        """Decode the batches before the first damaged one; return them and what is wrong."""
        batches = iter_batches(data)
        sound = 0
        try:
            for batch in batches:
                # One by one: slow, but the reader stops after this range.
                decode(batch.data, max_inflated_bytes=LARGEST_INPUT_BYTES)
                sound = batches.consumed_bytes
        except PeerError as damage:
            error = damage
        good = self._decode(data[:sound], aborted, offset, end) if sound else None
        return good, str(error)
