"""Leaving out the records of aborted transactions, for read_committed.

A broker sends aborted records like any others, together with the list of the aborted transactions
that reach into what it sends (KIP-98). The reader leaves them out:

Rule 1: reaching the first offset of an aborted transaction, its producer is aborted from there on.
Rule 2: the ABORT marker of an aborted producer ends that.
Rule 3: a transactional batch of a producer that is aborted is not shown.
"""

from collections.abc import Iterable

from headrace.model.error import InvalidArgument
from headrace.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from headrace.records.control import ControlType, read_control
from headrace.records.heads import Heads
from headrace.records.kernel.heads import (
    ATTRIBUTES,
    BASE_OFFSET,
    LAST_DELTA,
    PRODUCER_ID,
    SKIP,
    SKIP_ABORTED,
)


def skip_aborted(heads: Heads, aborted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Mark the batches of aborted transactions in the table of `heads`.

    Args:
        heads: batches in the order of their offsets, CRCs checked.
        aborted: (producer id, first offset) of each, as a fetch response lists them; any order.

    Returns:
        The transactions that do not end in these batches: hand them over with the next ones. All
        of them again would hide what a producer committed after an abort.
    """
    waiting = sorted(_pairs(aborted), key=lambda pair: pair[1], reverse=True)
    if not waiting:
        return []
    active: dict[int, int] = {}
    columns = (PRODUCER_ID, ATTRIBUTES, BASE_OFFSET, LAST_DELTA, SKIP)
    for row, fields in enumerate(heads.table[:, columns].tolist()):
        producer_id, attributes, base_offset, last_delta, skip = fields
        if producer_id < 0:
            continue
        while waiting and waiting[-1][1] <= base_offset + last_delta:
            aborted_id, first_offset = waiting.pop()
            active[aborted_id] = first_offset
        if attributes & CONTROL_BIT:
            if producer_id in active and _is_abort(heads, row):
                del active[producer_id]
        elif not skip and attributes & TRANSACTIONAL_BIT and producer_id in active:
            heads.table[row, SKIP] = SKIP_ABORTED
    return [*active.items(), *reversed(waiting)]


def _is_abort(heads: Heads, row: int) -> bool:
    record = read_control(heads.batch(row))
    return record is not None and record.type is ControlType.ABORT


def _pairs(aborted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    try:
        return [(int(producer_id), int(first_offset)) for producer_id, first_offset in aborted]
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"aborted transactions are pairs of producer id and first offset, not {aborted!r}"
        ) from error
