"""A batch in another codec: for topics whose compression.type is not the producer's choice."""

from headrace.model.error import BatchTooLarge
from headrace.records.batch import CODEC_MASK, HEADER_BYTES, MAX_INT32, Batch, Buffer, build_head
from headrace.records.compression import LEVELS, Codec, compress, inflate


def recompressed(
    batch: Batch,
    codec: Codec,
    level: int | None,
    *,
    max_inflated_bytes: int,
    max_bytes: int = MAX_INT32,
    rows: Buffer | None = None,
) -> Batch:
    """Return the same records in `codec`; the batch itself when it is in that codec already.

    The records are not opened: they are inflated and deflated as a whole, and the head gets a new
    length, codec and CRC.

    Args:
        level: brought into the range the codec library takes; None for its default.
        max_bytes: what the batch may have in the new codec.
        rows: the records of the batch, if they are inflated already.

    Raises:
        BatchTooLarge: the records inflate to more than `max_inflated_bytes`, or pack to more than
            `max_bytes`.
        CorruptBatch: they do not inflate.
    """
    if batch.compression == codec:
        return batch
    if rows is None:
        rows = inflate(Codec(batch.compression), batch.records, max_inflated_bytes)
    packed = compress(codec, rows, _within(codec, level))
    if HEADER_BYTES + len(packed) > max_bytes:
        raise BatchTooLarge(
            f"a batch has {HEADER_BYTES + len(packed)} bytes in the codec {codec.name.lower()}, "
            f"above the {max_bytes} that are allowed: send smaller batches"
        )
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
