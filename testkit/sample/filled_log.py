"""A partition's log with something in it, and what is in it."""

from typing import Any

from headrace.log.partition.partition_log import PartitionLog
from headrace.records.batch import iter_batches
from testkit.sample.batch import sample_batch


def fill(log: PartitionLog, count: int, size: int = 20, **batch: Any) -> None:
    """Append so many batches of one record, all of them committed."""
    for _ in range(count):
        log.append(sample_batch(b"v" * size, **batch), 0)
    log.set_high_watermark(log.log_end_offset)


def offsets(log: PartitionLog, start: int, **read: object) -> list[int]:
    """Return the base offsets of what a read from `start` returns."""
    piece = log.read(start, 1 << 20, **read)  # type: ignore[arg-type]
    return [batch.base_offset for batch in iter_batches(piece.read())]
