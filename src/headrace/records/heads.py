"""The heads of many batches as one table, scanned by a kernel instead of one object each."""

from collections.abc import Iterator

import numpy as np
from crc32c import crc32c

from headrace.model.error import CorruptBatch
from headrace.records.batch import ATTRIBUTES_AT, Batch, iter_batches
from headrace.records.kernel import heads as kernel
from headrace.records.kernel.memory import Int64s, readable

LOWEST_OFFSET = -(2**63)
PAST_EVERY_OFFSET = 2**63 - 1

_FIRST_ROWS = 64
_GROWTH = 8


class Heads:
    """The whole batches of a buffer; a row of `table` each, its columns named in `kernel/heads.py`.

    Built by `scan_heads`. The numbers in the heads are checked: length, magic, codec, and that the
    record count fits the offsets and, where nothing is compressed, the bytes. CRCs are not, until
    `verify_crcs` is called.

    Attributes:
        view: the scanned bytes.
        table: one row of int64 for each batch.
        consumed_bytes: where the last batch in the table ends.
        ended: the scan stopped before a batch at or past its `past_offset`.
        seen_attributes: the attributes of all batches in the range, or'ed together.
        selected_count, selected_bytes: how many records, and bytes as they lie there, the batches
            hold that are neither out of range nor control batches.
    """

    __slots__ = (
        "_crc_rows",
        "consumed_bytes",
        "ended",
        "seen_attributes",
        "selected_bytes",
        "selected_count",
        "table",
        "view",
    )

    def __init__(self, view: memoryview, table: Int64s, result: list[int]) -> None:
        self.view = view
        self.table = table
        self._crc_rows: list[list[int]] | None = None
        self.consumed_bytes = result[kernel.CONSUMED]
        self.ended = result[kernel.STATE] == kernel.PAST_END
        self.seen_attributes = result[kernel.SEEN_ATTRIBUTES]
        self.selected_count = result[kernel.SELECTED_COUNT]
        self.selected_bytes = result[kernel.SELECTED_BYTES]

    def __len__(self) -> int:
        return len(self.table)

    def batch(self, row: int) -> Batch:
        return Batch(self.view, int(self.table[row, kernel.POSITION]))

    def cut(self, batches: int) -> None:
        """Forget all batches from this number on."""
        if batches < len(self.table):
            self.consumed_bytes = int(self.table[batches, kernel.POSITION])
            self.table = self.table[:batches]
            self.ended = False

    def recount(self) -> None:
        """Bring `selected_count` and `selected_bytes` up to what the table says by now."""
        selected = self.table[self.table[:, kernel.SKIP] == 0]
        self.selected_count = int(selected[:, kernel.COUNT].sum())
        self.selected_bytes = int((selected[:, kernel.END] - selected[:, kernel.START]).sum())

    @property
    def next_offset(self) -> int | None:
        """The offset behind the last batch, or None without one."""
        if not len(self.table):
            return None
        last = self.table[-1]
        return int(last[kernel.BASE_OFFSET]) + int(last[kernel.LAST_DELTA]) + 1

    def verify_crcs(self, first: int = 0, past: int | None = None) -> None:
        """Check the bytes of the batches in the range of offsets against their CRC32C.

        Args:
            first, past: the rows of the table to look at.

        Raises:
            CorruptBatch: naming the first batch that does not match.
        """
        view = self.view
        for position, size, crc, skip in self._crcs()[first:past]:
            if skip == kernel.SKIP_RANGE:
                continue
            if crc32c(view[position + ATTRIBUTES_AT : position + size]) != crc:
                Batch(view, position).validate()

    def _crcs(self) -> list[list[int]]:
        if self._crc_rows is None:
            columns = (kernel.POSITION, kernel.SIZE, kernel.CRC, kernel.SKIP)
            self._crc_rows = self.table[:, columns].tolist()
        return self._crc_rows

    def pieces(self, piece_bytes: int) -> Iterator[tuple[int, int]]:
        """Cut the table into ranges of rows of about this many bytes, at least one row each."""
        first = 0
        taken = 0
        for row, size in enumerate(self.table[:, kernel.SIZE].tolist()):
            if taken and taken + size > piece_bytes:
                yield first, row
                first, taken = row, 0
            taken += size
        yield first, len(self.table)


def scan_heads(
    view: memoryview,
    first_offset: int = LOWEST_OFFSET,
    past_offset: int = PAST_EVERY_OFFSET,
) -> Heads:
    """Scan the batches that lie in `view`, up to a cut-off last one.

    Args:
        view: whole batches from its first byte on.
        first_offset: batches that end before it are marked to be skipped.
        past_offset: the scan ends before the first batch that starts here or later.

    Raises:
        CorruptBatch, UnsupportedBatch: a head that cannot be true.
    """
    data = readable(view)
    table = np.empty((_FIRST_ROWS, kernel.TABLE_COLUMNS), dtype=np.int64)
    result = np.zeros(kernel.RESULT_SLOTS, dtype=np.int64)
    while True:
        kernel.scan_heads(data, first_offset, past_offset, table, result)
        state = result[kernel.STATE]
        if state != kernel.TABLE_FULL:
            break
        larger = np.empty((len(table) * _GROWTH, kernel.TABLE_COLUMNS), dtype=np.int64)
        larger[: len(table)] = table
        table = larger
    if state == kernel.BAD_HEAD:
        raise_bad_head(view, int(result[kernel.CONSUMED]))
    return Heads(view, table[: result[kernel.BATCHES]], result.tolist())


def raise_bad_head(view: memoryview, position: int) -> None:
    """Raise what is wrong with the head that stopped the scan."""
    for batch in iter_batches(view, position):
        batch.validate()
        break
    raise CorruptBatch(
        f"The batch at byte {position} counts more records than its bytes can hold, "
        "or its offsets pass 2^63."
    )
