"""What the producers of a source leave in a mirror topic, made harmless before clients write there.

Both clusters count producer ids from 0. Without a fence, the first batch of a producer here could
be taken for a batch of the source's producer with the same id, and dropped as its duplicate. And a
transaction of the source that was open when copying stopped would hold up readers for ever.

So each producer that the log remembers gets an ABORT marker with the next epoch. It ends what was
open, and lets the log forget the sequences from before; it is a record, so followers and recovery
know the same. A log with nothing to fence gets nothing: the fence may be put up again and again.
"""

from headrace.broker.replica.partition import Partition

_LARGEST_EPOCH = 2**15 - 1


def put_up_fence(partition: Partition) -> int:
    """Append the markers of a mirror partition that has stopped; return how many.

    Raises:
        NotLeader, StorageError: it could not be done; try again.
    """
    count = 0
    for entry in partition.log.producer_entries():
        remembered = bool(entry.batches) and entry.epoch < _LARGEST_EPOCH
        if not remembered and not entry.in_transaction:
            continue
        partition.append_marker(
            entry.producer_id,
            min(entry.epoch + 1, _LARGEST_EPOCH),
            commit=False,
            coordinator_epoch=max(0, entry.coordinator_epoch),
            ends_mirror=True,
        )
        count += 1
    return count
