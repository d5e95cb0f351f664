"""The loop of `topic produce`: columns to their partitions.

Rule 1: batches carry a producer id and sequences, so that one that is sent again after a lost
connection is kept once.
Rule 2: the first batch that a broker refuses ends it. What was written before stays written.
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
        self._turn = 0

    @property
    def done(self) -> dict[int, AcknowledgedRecords]:
        """What each partition has got."""
        return {each.partition: landed for each, landed in self._writer.written.items()}

    def partition_of_key(self, key: bytes) -> int:
        return partition_of(key, len(self._partitions))

    def next_partition(self) -> int:
        """For records without a key: one partition after the other, a batch each."""
        self._turn = (self._turn + 1) % len(self._partitions)
        return self._partitions[self._turn]

    def write(self, columns: Mapping[int, pa.Table]) -> None:
        """Write some records to each partition, and wait until they are on all in-sync replicas.

        Raises:
            ClientError: a partition could not be written to.
        """
        try:
            for index, rows in columns.items():
                place = pa.repeat(pa.scalar(index, pa.int32()), rows.num_rows)
                self._writer.write(rows.append_column("partition", place))
            self._writer.flush()
        except ClientError as error:
            written = sum(landed.records for landed in self.done.values())
            tail = f" ({written} records were written before)" if written else ""
            raise ClientError(f"{error}{tail}") from error

    def close(self) -> None:
        """Disconnect; nothing waits any more, or it never will be written."""
        self._writer.abandon()
