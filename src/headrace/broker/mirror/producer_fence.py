"""What the producers of a source leave in a mirror topic, made harmless before clients write there.

Both clusters count producer ids from 0. Without a fence, the first batch of a producer here could
be taken for a batch of the source's producer with the same id, and dropped as its duplicate; and a
marker of this cluster's coordinator could be refused as one of a coordinator from before. A
transaction of the source that was open when copying stopped would hold up readers for ever.

So each producer that the log remembers gets an ABORT marker with the lowest epochs. It ends what
was open, and the log forgets the sequences and the epochs from before; it is a record, so followers
and recovery know the same. The marker of `FENCE_ID`, which no producer has, comes last, and says
that the fence is complete: also where there was nothing to fence. A fence that is up stays as it
is, however often it is put up.
"""

from headrace.broker.replica.partition import Partition
from headrace.log.producer.producer_entry import ProducerEntry

FENCE_ID = 2**63 - 1
_LOWEST_EPOCH = 0
# Markers that are appended in one turn of the event loop: some milliseconds.
_MOST = 200


def put_up_fence(partition: Partition) -> bool:
    """Append markers to a mirror partition that has stopped; return whether all are there.

    Raises:
        NotLeader, StorageError: it could not be done; try again.
    """
    left = [each for each in partition.log.producer_entries() if not _is_fenced(each)]
    for entry in left[:_MOST]:
        if entry.epoch == _LOWEST_EPOCH:
            # Only another epoch lets the log forget the sequences of this one.
            partition.abort_mirrored(entry.producer_id, _LOWEST_EPOCH + 1)
        partition.abort_mirrored(entry.producer_id, _LOWEST_EPOCH)
    if len(left) > _MOST:
        return False
    if all(each.producer_id != FENCE_ID for each in partition.log.producer_entries()):
        partition.abort_mirrored(FENCE_ID, _LOWEST_EPOCH)
    return True


def _is_fenced(entry: ProducerEntry) -> bool:
    return (
        not entry.batches
        and not entry.in_transaction
        and entry.epoch == _LOWEST_EPOCH
        and entry.coordinator_epoch <= 0
    )
