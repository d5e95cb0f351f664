"""Dropping records from a chunk, and rebuilding the batches around the rest."""

from dataclasses import dataclass
from struct import Struct

import numpy as np
from crc32c import crc32c

from headrace.log.compaction.inflater import Inflater
from headrace.log.compaction.offset_map import OffsetMap
from headrace.log.compaction.segment_chunk import SegmentChunk
from headrace.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD,
)
from headrace.records.compression import Codec, compress
from headrace.records.kernel import batch_rewrite, batch_table
from headrace.records.kernel.memory import Bytes, Int64s

_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_REBUILT = (batch_table.ACTION_GATHER, batch_table.ACTION_STAMP)


@dataclass(frozen=True, slots=True)
class FilteredChunk:
    """What is left of a chunk. Both views are valid until the next chunk is filtered.

    Attributes:
        data: the batches that stay, one after the other.
        batches: the rows of those that stay; OUT_POSITION and OUT_SIZE place them in `data`,
            KEPT_MAX_TIMESTAMP is the newest timestamp in each.
    """

    data: memoryview
    batches: Int64s
    changed: bool
    records_read: int
    records_kept: int


class BatchFilter:
    """Drops every record of which a newer one with the same key exists, in one compaction round.

    Batches that lose nothing are copied as bytes. Others are rebuilt without their lost records,
    and compressed again with their own codec. Memory: one output buffer of about a chunk, and nine
    bytes per record. One thread.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        *,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        inflater: Inflater,
    ) -> None:
        """The map knows all keys below `end_offset`, and nothing of those from there on."""
        self._map = offset_map
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._horizon_ms = min(now_ms + delete_retention_ms, 2**63 - 1)
        self._inflater = inflater
        self._out: Bytes = np.empty(0, dtype=np.uint8)
        self._record_ends = np.empty(0, dtype=np.int64)
        self._kept: Bytes = np.empty(0, dtype=np.uint8)

    def apply(self, chunk: SegmentChunk) -> FilteredChunk:
        """Filter a chunk whose rows have their PLAN and RETAIN set.

        Raises:
            UncleanableLog: a batch that has to be opened does not parse.
        """
        out_at = 0
        for body, first, last in chunk.bodies(self._inflater):
            self._judge(chunk, body, first, last)
            rows = chunk.batches[first:last]
            self._reserve(out_at, int(rows[:, batch_table.OUT_SIZE].sum()), rows, len(body))
            out_at = batch_rewrite.rebuild(
                chunk.data,
                body,
                chunk.batches,
                first,
                last,
                self._horizon_ms,
                self._record_ends,
                self._kept,
                self._out,
                out_at,
            )
            row = rows[0]
            if row[batch_table.ATTRIBUTES] & CODEC_MASK and row[batch_table.ACTION] in _REBUILT:
                out_at = self._compress(row, out_at)
        return self._result(chunk.batches, out_at)

    def _judge(self, chunk: SegmentChunk, body: Bytes, first: int, last: int) -> None:
        records = int(chunk.batches[first:last, batch_table.COUNT].sum())
        if records > len(self._kept):
            self._record_ends = np.empty(records, dtype=np.int64)
            self._kept = np.empty(records, dtype=np.uint8)
        entries = batch_rewrite.judge(
            body,
            chunk.batches,
            first,
            last,
            self._end_offset,
            self._now_ms,
            *self._map.secret,
            self._map.table,
            self._record_ends,
            self._kept,
        )
        if entries < 0:
            raise chunk.damaged(-1 - entries, "the records of a batch do not parse")

    def _reserve(self, out_at: int, size: int, rows: Int64s, body_bytes: int) -> None:
        """Make room for what `rebuild` may write: an inflated batch comes out uncompressed."""
        if len(rows) == 1 and rows[0, batch_table.ATTRIBUTES] & CODEC_MASK:
            growth = batch_rewrite.STAMP_GROWTH_BYTES * int(rows[0, batch_table.COUNT])
            size = max(size, HEADER_BYTES + body_bytes + growth)
        if out_at + size > len(self._out):
            grown = np.empty(out_at + size, dtype=np.uint8)
            grown[:out_at] = self._out[:out_at]
            self._out = grown

    def _compress(self, row: Int64s, end: int) -> int:
        """Compress the batch that ends the output so far, in place."""
        start = int(row[batch_table.OUT_POSITION])
        codec = Codec(int(row[batch_table.ATTRIBUTES]) & CODEC_MASK)
        packed = compress(codec, self._out[start + HEADER_BYTES : end].tobytes())
        end = start + HEADER_BYTES + len(packed)
        if end > len(self._out):
            self._out = np.concatenate([self._out, np.empty(end - len(self._out), np.uint8)])
        view = self._out.data
        view[start + HEADER_BYTES : end] = packed
        _INT32.pack_into(view, start + LENGTH_AT, end - start - LOG_OVERHEAD)
        _UINT32.pack_into(view, start + CRC_AT, crc32c(view[start + ATTRIBUTES_AT : end]))
        row[batch_table.OUT_SIZE] = end - start
        return end

    def _result(self, batches: Int64s, out_bytes: int) -> FilteredChunk:
        action = batches[:, batch_table.ACTION]
        copied = (action == batch_table.ACTION_COPY) | (action == batch_table.ACTION_EMPTY)
        batches[copied, batch_table.KEPT_MAX_TIMESTAMP] = batches[copied, batch_table.MAX_TIMESTAMP]
        return FilteredChunk(
            data=self._out.data[:out_bytes],
            batches=batches[action != batch_table.ACTION_DROP],
            changed=bool((action != batch_table.ACTION_COPY).any()),
            records_read=int(batches[:, batch_table.COUNT].sum()),
            records_kept=int(batches[:, batch_table.KEPT].sum()),
        )
