"""A batch in another codec: for topics whose compression.type is not the producer's choice."""

from headrace.records.batch import CODEC_MASK, Batch, build_head
from headrace.records.compression import LEVELS, Codec, compress, inflate


def recompressed(
    batch: Batch, codec: Codec, level: int | None, *, max_inflated_bytes: int
) -> Batch:
    """Return the same records in `codec`; the batch itself when it is in that codec already.

    The records are not opened: they are inflated and deflated as a whole, and the head gets a new
    length, codec and CRC.

    Args:
        level: brought into the range the codec library takes; None for its default.

    Raises:
        BatchTooLarge: the records inflate to more than `max_inflated_bytes`.
        CorruptBatch: they do not inflate.
    """
    if batch.compression == codec:
        return batch
    rows = inflate(Codec(batch.compression), batch.records, max_inflated_bytes)
    packed = compress(codec, rows, _within(codec, level))
    head = build_head(
        packed,
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes & ~CODEC_MASK | codec,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=batch.record_count,
    )
    return Batch(head + bytes(packed))


def _within(codec: Codec, level: int | None) -> int | None:
    bounds = LEVELS.get(codec)
    if bounds is None or level is None:
        return None
    lowest, highest, _ = bounds
    return max(lowest, min(level, highest))
