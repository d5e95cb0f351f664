"""Record batches for tests, made record by record without numba, as a producer would send them."""

from collections.abc import Sequence

from headrace.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from headrace.records.batch import TRANSACTIONAL_BIT, build_head
from headrace.records.varint import write_varint

SAMPLE_TIME_MS = 1_700_000_000_000
"""Where `ManualClock` starts."""


def sample_batch(
    *values: bytes,
    keys: Sequence[bytes | None] | None = None,
    timestamp_ms: int = SAMPLE_TIME_MS,
    step_ms: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytes:
    """Build one uncompressed batch with a record for each value.

    Args:
        keys: one for each value; without them each record has the key `k`.
        step_ms: how much later each record is than the one before.

    >>> from headrace.records.batch import Batch
    >>> Batch(sample_batch(b"a", b"b")).record_count
    2
    """
    keys = [b"k"] * len(values) if keys is None else keys
    records = b"".join(
        _record(number, key, value, number * step_ms)
        for number, (key, value) in enumerate(zip(keys, values, strict=True))
    )
    span = len(values) - 1
    head = build_head(
        records,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL_BIT if transactional else 0,
        last_offset_delta=span,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms + max(0, span * step_ms),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        record_count=len(values),
    )
    return head + records


def _record(number: int, key: bytes | None, value: bytes, delta_ms: int) -> bytes:
    body = b"".join((b"\0", write_varint(delta_ms), write_varint(number), *_field(key)))
    body += b"".join((*_field(value), write_varint(0)))
    return write_varint(len(body)) + body


def _field(content: bytes | None) -> tuple[bytes, ...]:
    if content is None:
        return (write_varint(-1),)
    return write_varint(len(content)), content
