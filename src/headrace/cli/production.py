"""The loop of `topic produce`: columns to batches, batches to their leaders.

Rule 1: batches carry a producer id and sequences where the broker gives them out, so that one that
is sent again after a lost connection is kept once.
Rule 2: the first batch that a broker refuses ends it. What was written before stays written.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.client.batch_writer import BatchWriter, ProducerIdentity, Written
from headrace.client.error import ClientError
from headrace.client.partitioner import partition_of
from headrace.client.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch
from headrace.records.encode import Encoded, encode

_NO_IDENTITY = ProducerIdentity(-1, -1)


@dataclass(slots=True)
class Progress:
    """What one partition has got."""

    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    next_sequence: int = 0


class Production:
    """Writes records to the partitions of one topic."""

    def __init__(
        self, pool: ConnectionPool, topic: str, partitions: Sequence[int], codec: str = "none"
    ) -> None:
        self.done: dict[int, Progress] = {}
        self._topic = topic
        self._partitions = sorted(partitions)
        self._codec = codec
        self._writer = BatchWriter(pool)
        self._identity = self._writer.identity()
        self._turn = 0

    @property
    def records(self) -> int:
        return sum(each.records for each in self.done.values())

    def partition_of_key(self, key: bytes) -> int:
        return partition_of(key, len(self._partitions))

    def next_partition(self) -> int:
        """For records without a key: one partition after the other, a batch each."""
        self._turn = (self._turn + 1) % len(self._partitions)
        return self._partitions[self._turn]

    def write(self, columns: Mapping[int, pa.Table | pa.RecordBatch]) -> None:
        """Write some records to each partition, and wait until they are on all in-sync replicas.

        Raises:
            ClientError: a partition could not be written to.
        """
        encoded = {index: self._encode(index, rows) for index, rows in columns.items()}
        for turn in range(max((len(each.batches) for each in encoded.values()), default=0)):
            batches = {
                TopicPartition(self._topic, index): each.batches[turn]
                for index, each in encoded.items()
                if turn < len(each.batches)
            }
            for partition, outcome in self._writer.write(batches).items():
                self._note(partition, batches[partition], outcome)

    def _encode(self, index: int, rows: pa.Table | pa.RecordBatch) -> Encoded:
        identity = self._identity or _NO_IDENTITY
        progress = self.done.setdefault(index, Progress())
        return encode(
            rows,
            timestamp_ms=time.time_ns() // 1_000_000,
            codec=self._codec,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=-1 if self._identity is None else progress.next_sequence,
        )

    def _note(
        self, partition: TopicPartition, batch: memoryview, outcome: Written | ClientError
    ) -> None:
        if isinstance(outcome, ClientError):
            written = self.records
            tail = f" ({written} records were written before)" if written else ""
            raise ClientError(f"cannot write to {partition}: {outcome}{tail}")
        head = Batch(batch)
        progress = self.done[partition.partition]
        if progress.first_offset < 0:
            progress.first_offset = outcome.base_offset
        progress.last_offset = outcome.base_offset + head.last_offset_delta
        progress.records += head.record_count
        if self._identity is not None:
            progress.next_sequence = head.last_sequence + 1 & 0x7FFFFFFF
