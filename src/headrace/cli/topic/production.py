"""The loop of `topic produce`: columns to their partitions.

Rule 1: batches carry a producer id and sequence numbers, so that the broker stores a batch once
even if it is sent again after a lost connection.
Rule 2: the first batch that a broker refuses stops the command. Earlier batches stay written.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.write.partition_queue import AcknowledgedRecords
from headrace.client.write.partitioner import partition_of
from headrace.client.write.writer import Writer


class Production:
    """Writes records to the partitions of one topic."""

    def __init__(
        self, pool: ConnectionPool, topic: str, partitions: Sequence[int], codec: str = "none"
    ) -> None:
        self._partitions = sorted(partitions)
        self._writer = Writer(pool.settings, topic, codec=codec)
        self._next = 0

    @property
    def done(self) -> dict[int, AcknowledgedRecords]:
        """What was written to each partition."""
        return {each.partition: landed for each, landed in self._writer.written.items()}

    def partition_of_key(self, key: bytes) -> int:
        return partition_of(key, len(self._partitions))

    def next_partition(self) -> int:
        """Return the partition of the next batch of records without a key: each in turn."""
        self._next = (self._next + 1) % len(self._partitions)
        return self._partitions[self._next]

    def write(self, columns: Mapping[int, pa.Table]) -> None:
        """Write some records to each partition, and wait until all in-sync replicas have them.

        Raises:
            ClientError: a partition refused its records.
        """
        try:
            for index, rows in columns.items():
                numbers = pa.repeat(pa.scalar(index, pa.int32()), rows.num_rows)
                self._writer.write(rows.append_column("partition", numbers))
            self._writer.flush()
        except ClientError as error:
            written = sum(landed.records for landed in self.done.values())
            tail = f" ({written} records were written before)" if written else ""
            raise ClientError(f"{error}{tail}") from error

    def close(self) -> None:
        """Disconnect without writing what still waits after a failure."""
        self._writer.abandon()
