"""Keeps a table up to date with a topic of one partition, by reading what is new each time.

Rule 1: the table holds what the records before the position say, also after a failure: the next
`update` goes on there.
Rule 2: the table is read from the start again when the position means nothing any more. That is so
when the topic was deleted and created again, which its id tells even if the new one has grown past
the position; when it ends before the position; and when records after it were removed, among which
may have been the end of something.
"""

from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

import pyarrow as pa

from headrace.client.error import BrokerError, ClientError, PositionOutOfRange
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.read_range import LogEdge, ReadRange
from headrace.client.read.reader import BYTES_IN_FLIGHT, Reader
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_TRIES: Final = 3


class RecordTable(Protocol):
    """What a topic's records add up to."""

    def clear(self) -> None:
        """Forget everything: the topic is read from its start."""

    def add(self, columns: pa.RecordBatch) -> None:
        """Apply records, in the order of the topic."""


class TableReader:
    """Reads one topic into one table. For one thread; nothing is kept open between two updates.

    Args:
        columns: of the records that the table gets.

    Example:
        reader = TableReader(settings, TopicPartition("states", 0), table, columns=["key"])
        while True:
            reader.update()
    """

    def __init__(
        self,
        settings: ClientSettings,
        partition: TopicPartition,
        table: RecordTable,
        *,
        columns: Sequence[str],
        read_committed: bool = False,
        max_bytes_in_flight: int = BYTES_IN_FLIGHT,
    ) -> None:
        self._settings = settings
        self._partition = partition
        self._table = table
        self._columns = columns
        self._read_committed = read_committed
        self._max_bytes_in_flight = max_bytes_in_flight
        self._topic_id: UUID | None = None
        self._position: int | LogEdge = LogEdge.EARLIEST

    def update(self) -> None:
        """Read to the end of the topic. A topic that does not exist has no records.

        Raises:
            ClientError: the cluster does not answer, or refuses.
        """
        for _ in range(_TRIES):
            try:
                if self._read_new():
                    return
            except PositionOutOfRange:
                pass
            except BrokerError as error:
                if error.code is ErrorCode.unknown_topic_or_partition:
                    self._start_over()
                    return
                if error.code is not ErrorCode.unknown_topic_id:
                    raise
            self._start_over()
        raise ClientError(f"topic {self._partition.topic} changes while it is read")

    def _read_new(self) -> bool:
        """Read what is new; return whether nothing before it was lost."""
        if self._position is LogEdge.EARLIEST:
            self._topic_id = self._current_id()
        topic = self._partition.topic
        with Reader(
            self._settings,
            {self._partition: ReadRange(self._position)},
            read_committed=self._read_committed,
            columns=self._columns,
            max_bytes_in_flight=self._max_bytes_in_flight,
            reset=LogEdge.EARLIEST,
            topic_ids={} if self._topic_id is None else {topic: self._topic_id},
        ) as reader:
            began_at_edge = self._position is LogEdge.EARLIEST
            for chunk in reader:
                if reader.lost and not began_at_edge:
                    return False
                self._table.add(chunk.columns)
                self._position = chunk.next_offset
            if reader.lost and not began_at_edge:
                return False
            self._position = reader.positions[self._partition]
        return True

    def _current_id(self) -> UUID | None:
        """Return the topic's id; None on brokers without ids."""
        topic = self._partition.topic
        with ConnectionPool(self._settings) as pool:
            return pool.metadata([topic]).topic_id(topic)

    def _start_over(self) -> None:
        self._table.clear()
        self._position = LogEdge.EARLIEST
