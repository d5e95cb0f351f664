"""Finding the batches of a producer that a snapshot left out.

A snapshot keeps the last batch of each producer, as Kafka's does, but a producer may have five in
flight. If a restart loses the responses, it sends all of them again, and only the last would be
recognised as a duplicate. The others are in the log: their heads are read when such a batch comes.
"""

from collections import deque

from headrace.log.producer.producer_entry import REMEMBERED_BATCHES, BatchMetadata, ProducerEntry
from headrace.log.segment.batch_scan import walk_heads
from headrace.log.segment.segment import Segment
from headrace.records.batch import add_sequence

# How far back the search goes, in entries of the offset index. One stands for 4 KiB of small
# batches or for one large batch: a few thousand heads at most, some milliseconds per producer.
_ENTRIES = 64


def recall_batches(segment: Segment, entry: ProducerEntry) -> list[BatchMetadata]:
    """Return the batches that come right before the oldest remembered one, oldest first.

    Args:
        segment: the one that holds the oldest remembered batch; others are not looked into.
    """
    oldest = entry.batches[0]
    recalled: deque[BatchMetadata] = deque(maxlen=REMEMBERED_BATCHES - len(entry.batches))
    position = segment.offset_index.lookup_before(oldest.first_offset, _ENTRIES).position
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
