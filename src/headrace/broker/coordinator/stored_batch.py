"""The batches of an internal partition, as a coordinator reads them when it loads its shard."""

from collections.abc import Iterator

from headrace.broker.replica.partition import Partition
from headrace.model.error import StorageError
from headrace.records.batch import Batch, iter_batches

_READ_BYTES = 1024 * 1024


def stored_batches(partition: Partition, start: int = 0) -> Iterator[Batch]:
    """Yield every batch of an internal partition from `start`, or its own start, to its end.

    Raises:
        StorageError: the log cannot be read to its end.
    """
    at = max(start, partition.log.log_start_offset)
    while at < partition.log.log_end_offset:
        piece = partition.log.read(at, _READ_BYTES, max_offset=partition.log.log_end_offset)
        before = at
        for batch in iter_batches(piece.read()):
            if batch.next_offset > at:
                yield batch
                at = batch.next_offset
        if at == before:
            raise StorageError(f"{partition.name} cannot be read past offset {at}")
