"""Fetches record batches as they lie in the log, from each partition's leader."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from headrace.client.error import BrokerError, ConnectionLost, Unreachable, error_of
from headrace.client.network.connection import BrokerConnection, PendingRequest
from headrace.client.network.leader_call import split_by_leader
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.network.retry import STALE_LEADER, Retry
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import error_code
from headrace.wire.fetch_request import FIRST_TOPIC_ID, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.fetch_response import FetchPartitionResult, FetchResponse

_NO_RECORDS = memoryview(b"")


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """What one fetch returned of one partition.

    Attributes:
        data: batches; the last one may be incomplete. The first is the batch that holds `offset`;
            some of its records may lie before it.
        aborted: (producer id, first offset) of aborted transactions, for `records.decode`.
        end: where the log ends for this reader.
        error: why there is no data. The reader itself retries while a leader moves.
        topic_id: of the topic that was fetched, if the broker has ids. Another one than before
            means that the topic was deleted and created again.
    """

    partition: TopicPartition
    offset: int
    data: memoryview
    aborted: list[tuple[int, int]]
    log_start: int
    end: int
    error: BrokerError | None
    topic_id: UUID | None = None


class BatchReader:
    """Reads partitions from given positions. The caller advances the positions.

    Args:
        partition_max_bytes: instead of the setting max.partition.fetch.bytes.

    Example:
        reader = BatchReader(pool, {TopicPartition("clicks", 0): 0})
        for fetched in reader.poll():
            decoded = decode(fetched.data, start_offset=fetched.offset)
            reader.positions[fetched.partition] = decoded.next_offset
    """

    def __init__(
        self,
        pool: ConnectionPool,
        positions: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        partition_max_bytes: int | None = None,
    ) -> None:
        self.positions = dict(positions)
        self._pool = pool
        self._partition_max_bytes = partition_max_bytes or pool.settings.partition_max_bytes
        self._read_committed = read_committed
        self._metadata: Metadata | None = None
        self._retry: Retry | None = None
        self._turn = 0

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read more partitions, which may be new in the cluster."""
        self.positions |= positions
        self._metadata = None

    def poll(self, max_wait_ms: int | None = None) -> list[FetchedBatches]:
        """Send one fetch to every leader and wait for all responses.

        Returns:
            What the leaders returned. It is empty after fetch.max.wait.ms without records, or when
            a leader has moved; the caller polls again.
        """
        wait_ms = self._pool.settings.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms
        if not self.positions:
            return []
        if self._metadata is None:
            self._metadata = self._pool.metadata({each.topic for each in self.positions})
        missing, by_leader = split_by_leader(self._metadata, self._in_turn())
        fetched = [self._failed(partition, error) for partition, error in missing.items()]
        started: deque[tuple[BrokerConnection, PendingRequest]] = deque()
        try:
            for leader, partitions in by_leader.items():
                connection = self._pool.node(leader)
                started.append((connection, self._begin(connection, partitions, wait_ms)))
            while started:
                connection, pending = started[0]
                fetched += self._results(connection.finish(pending))
                started.popleft()
        except (ConnectionLost, Unreachable):
            self._give_up(started)
            if not self._may_retry():
                raise
            return []
        except BaseException:
            self._give_up(started)
            raise
        return self._without_stale(fetched)

    def _without_stale(self, fetched: list[FetchedBatches]) -> list[FetchedBatches]:
        """Leave out errors that a moved leader explains, until the retries are used up."""
        stale = [each for each in fetched if each.error and each.error.code in STALE_LEADER]
        if not stale:
            self._retry = None
            return fetched
        if not self._may_retry():
            return fetched
        return [each for each in fetched if each not in stale]

    def _may_retry(self) -> bool:
        self._metadata = None
        if self._retry is None:
            self._retry = Retry(self._pool.settings)
        return self._retry.pause()

    def _give_up(self, started: "deque[tuple[BrokerConnection, PendingRequest]]") -> None:
        """Close the connections: a late response would be taken for that of the next poll."""
        for connection, _ in started:
            connection.close()

    def _in_turn(self) -> list[TopicPartition]:
        """Rotate the partitions: a broker fills its response in the order of the request."""
        partitions = list(self.positions)
        self._turn = (self._turn + 1) % len(partitions)
        return partitions[self._turn :] + partitions[: self._turn]

    def _begin(
        self, connection: BrokerConnection, partitions: Sequence[TopicPartition], wait_ms: int
    ) -> PendingRequest:
        assert self._metadata is not None
        topics: dict[str, FetchTopic] = {}
        for each in partitions:
            topic = topics.get(each.topic)
            if topic is None:
                topic_id = self._metadata.topic_id(each.topic)
                topic = topics[each.topic] = FetchTopic(each.topic, topic_id, [])
            topic.partitions.append(
                FetchPartition(
                    each.partition,
                    -1,
                    self.positions[each],
                    -1,
                    -1,
                    self._partition_max_bytes,
                )
            )
        request = FetchRequest(
            wait_ms,
            1,
            self._pool.settings.fetch_max_bytes,
            int(self._read_committed),
            list(topics.values()),
        )
        by_name = any(topic.topic_id is None for topic in topics.values())
        highest = FIRST_TOPIC_ID - 1 if by_name else None
        return connection.begin(ApiKey.FETCH, request, highest=highest, wait_ms=wait_ms)

    def _results(self, answer: FetchResponse) -> list[FetchedBatches]:
        if answer.error_code:
            raise BrokerError(error_code(answer.error_code))
        assert self._metadata is not None
        names = {topic.topic_id: name for name, topic in self._metadata.topics.items()}
        fetched = []
        for topic in answer.topics:
            name = topic.name if topic.name is not None else names.get(topic.topic_id)
            for result in topic.partitions:
                partition = TopicPartition(name or "", result.partition)
                if partition in self.positions:
                    fetched.append(self._result(partition, result))
        return fetched

    def _result(
        self, partition: TopicPartition, result: FetchPartitionResult[memoryview]
    ) -> FetchedBatches:
        return FetchedBatches(
            partition,
            self.positions[partition],
            _NO_RECORDS if result.records is None else result.records,
            [(each.producer_id, each.first_offset) for each in result.aborted or ()],
            result.log_start_offset,
            result.last_stable_offset if self._read_committed else result.high_watermark,
            error_of(error_code(result.error_code)),
            None if self._metadata is None else self._metadata.topic_id(partition.topic),
        )

    def _failed(self, partition: TopicPartition, error: BrokerError) -> FetchedBatches:
        return FetchedBatches(partition, self.positions[partition], _NO_RECORDS, [], -1, -1, error)
