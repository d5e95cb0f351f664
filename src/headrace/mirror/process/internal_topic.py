"""The mirrors' own topics: one partition, compacted, records with keys."""

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.client.write.batch_writer import BatchWriter
from headrace.model.clock import SystemClock
from headrace.model.ids import TopicPartition
from headrace.records.batch import iter_batches
from headrace.records.record import Record, build_batch, iter_records
from headrace.wire.error_code import ErrorCode

_CONFIGS: Final = {"cleanup.policy": "compact"}
_MOST_RECORDS: Final = 1000
_READ_BYTES: Final = 1 << 20


class InternalTopic:
    """One of the mirrors' own topics in one cluster. Its user's thread owns the pool."""

    def __init__(self, pool: ConnectionPool, name: str, replication_factor: int = -1) -> None:
        self.name = name
        self._pool = pool
        self._replication_factor = replication_factor
        self._exists = False

    @property
    def _partition(self) -> TopicPartition:
        return TopicPartition(self.name, 0)

    def create(self) -> None:
        """Create the topic if it is not there.

        Raises:
            ClientError: the cluster refuses it.
        """
        if self._exists:
            return
        topic = NewTopic(self.name, 1, self._replication_factor, _CONFIGS)
        error = Admin(self._pool).create_topics([topic])[self.name]
        if error is not None and error.code is not ErrorCode.topic_already_exists:
            raise ClientError(f"cannot create the topic {self.name}: {error}") from error
        self._exists = True

    def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Write records; the topic is created before the first.

        Raises:
            ClientError: the cluster refuses them. Some of them may have been written.
        """
        self.create()
        writer = BatchWriter(self._pool)
        for first in range(0, len(records), _MOST_RECORDS):
            data = build_batch(records[first : first + _MOST_RECORDS], SystemClock().wall_ms())
            outcome = writer.write({self._partition: memoryview(data)})[self._partition]
            if isinstance(outcome, ClientError):
                self._exists = False
                raise ClientError(f"cannot write to {self.name}: {outcome}") from outcome

    def read(self) -> Iterator[Record]:
        """Read all records up to the present end.

        Raises:
            ClientError: the cluster refuses it, or the topic is not there.
        """
        extent = extents(self._pool, [self._partition])[self._partition]
        if isinstance(extent, ClientError):
            raise extent
        yield from self._between(extent)

    def _between(self, extent: LogExtent) -> Iterator[Record]:
        reader = BatchReader(
            self._pool, {self._partition: extent.start}, partition_max_bytes=_READ_BYTES
        )
        while (position := reader.positions[self._partition]) < extent.end:
            fetched = reader.poll()
            for each in fetched:
                if each.error is not None:
                    raise each.error
                for batch in iter_batches(each.data):
                    batch.validate()
                    if not batch.is_control:
                        yield from iter_records(batch)
                    reader.positions[self._partition] = batch.next_offset
            if fetched and reader.positions[self._partition] == position:
                return  # compaction left nothing up to the end
