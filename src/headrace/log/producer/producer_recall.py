"""Finding the batches of a producer that a snapshot left out.

A snapshot keeps the last batch of each producer, as Kafka's does, but a producer may have five in
flight. If a restart loses the responses, it sends all of them again, and only the last would be
recognised as a duplicate. The others are in the log: their heads are read when such a batch comes.
"""

from collections import deque
from collections.abc import Sequence

from headrace.log.producer.producer_entry import REMEMBERED_BATCHES, BatchMetadata, ProducerEntry
from headrace.log.segment.batch_scan import walk_heads
from headrace.log.segment.segment import Segment
from headrace.model.error import CorruptIndex
from headrace.records.batch import add_sequence

# How far back the search goes, in entries of the offset index: in the segment of the oldest batch
# that is remembered, and from the end of each before it. An entry stands for 4 KiB of small batches
# or for one large batch: a few thousand heads at most, some milliseconds per producer.
_ENTRIES = 64
_EARLIER_ENTRIES = 16


def recall_batches(segments: Sequence[Segment], entry: ProducerEntry) -> list[BatchMetadata]:
    """Return the batches that come right before the oldest remembered one, oldest first.

    A segment that cannot be read, because its index is damaged or compaction replaces it just now,
    ends the search.

    Args:
        segments: up to the one that holds the oldest remembered batch. So many are looked into as
            batches are remembered.
    """
    known: list[BatchMetadata] = [entry.batches[0]]
    most = REMEMBERED_BATCHES - len(entry.batches) + 1
    entries = _ENTRIES
    for segment in reversed(segments[-REMEMBERED_BATCHES:]):
        if len(known) >= most or known[0].first_sequence == 0:
            break
        try:
            found = _recall_from(segment, entry, known[0], most - len(known), entries)
        except (FileNotFoundError, CorruptIndex):
            break
        known = found + known
        entries = _EARLIER_ENTRIES
    return known[:-1]


def _recall_from(
    segment: Segment, entry: ProducerEntry, oldest: BatchMetadata, most: int, entries: int
) -> list[BatchMetadata]:
    """Return the batches in one segment that come right before `oldest`, in it or behind it."""
    recalled: deque[BatchMetadata] = deque(maxlen=most)
    position = segment.offset_index.lookup_before(oldest.first_offset, entries).position
    for head in walk_heads(segment.file(), position, segment.size_bytes):
        if head.base_offset >= oldest.first_offset:
            break
        if (head.producer_id, head.producer_epoch) != (entry.producer_id, entry.epoch):
            continue
        if head.is_control:
            continue
        if recalled and add_sequence(recalled[-1].last_sequence, 1) != head.base_sequence:
            recalled.clear()
        recalled.append(
            BatchMetadata(
                head.base_sequence,
                head.last_sequence,
                head.last_offset,
                head.last_offset - head.base_offset,
                head.max_timestamp,
            )
        )
    if recalled and add_sequence(recalled[-1].last_sequence, 1) != oldest.first_sequence:
        recalled.clear()
    return list(recalled)
