"""Encodes the rows of one task into record batches, each for one partition."""

import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from headrace.client.network.pool import ConnectionPool
from headrace.client.write.row_partitioner import RowPartitioner
from headrace.model.ids import TopicPartition
from headrace.records.batch import HEADER_BYTES
from headrace.records.encode import encode
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.topic import find_topic

_TABLE_BYTES: Final = 4 * 1024 * 1024
"""Spark passes ten thousand rows at a time. Split by key they would make small batches."""

_PIECE_BYTES: Final = 16 * 1024 * 1024
_ROW_OVERHEAD_BYTES: Final = 10


class SinkEncoder:
    """Splits rows by topic and partition, and encodes them: columns in, batches out.

    The batches have no producer id: the sender writes it into their headers.
    """

    def __init__(
        self, pool: ConnectionPool, columns: SinkColumns, *, codec: str, batch_bytes: int
    ) -> None:
        self._pool = pool
        self._columns = columns
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._partitioners: dict[str, RowPartitioner] = {}

    def batches(
        self, rows: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[TopicPartition, memoryview, int]]:
        """Yield each batch with its target and the number of its records.

        Raises:
            BrokerError: a topic does not exist.
            InvalidArgument: rows that cannot become records, or a partition that does not exist.
        """
        for table in _tables(rows):
            for topic, records in self._columns.split(table):
                yield from self._encoded(self._partitioner(topic), records)

    def _encoded(
        self, partitioner: RowPartitioner, records: pa.Table
    ) -> Iterator[tuple[TopicPartition, memoryview, int]]:
        row_bytes = records.nbytes // max(1, records.num_rows) + _ROW_OVERHEAD_BYTES
        now_ms = time.time_ns() // 1_000_000
        for partition, part in partitioner.split(records, self._batch_bytes // row_bytes):
            encoded = encode(
                part,
                timestamp_ms=now_ms,
                max_batch_bytes=max(HEADER_BYTES + 1, self._batch_bytes),
                codec=self._codec,
            )
            for batch in encoded.batches:
                index = partitioner.next() if partition is None else partition
                yield TopicPartition(partitioner.topic, index), batch, _count(batch)

    def _partitioner(self, topic: str) -> RowPartitioner:
        found = self._partitioners.get(topic)
        if found is None:
            partitions = find_topic(self._pool, topic).partitions.values()
            led = [each.index for each in partitions if each.leader >= 0]
            found = self._partitioners[topic] = RowPartitioner(topic, len(partitions), led)
        return found


def _tables(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of about `_TABLE_BYTES`, without a copy."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        for piece in _pieces(batch):
            waiting.append(piece)
            size += piece.nbytes
            if size >= _TABLE_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a large batch: encoding must not double all of its memory at once."""
    step = max(1, batch.num_rows * _PIECE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _count(batch: memoryview) -> int:
    return int.from_bytes(batch[HEADER_BYTES - 4 : HEADER_BYTES], "big")
