"""A batch that is about to be written, or was: the batch and its place in this log."""

from typing import NamedTuple

from headrace.records.batch import Batch


class PlacedBatch(NamedTuple):
    """A batch and the offsets it has in this log, which its own head may not say yet."""

    batch: Batch
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
