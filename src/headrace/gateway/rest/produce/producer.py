"""Produces the records of requests: chooses their partitions and waits for their offsets.

For one event loop, which never waits for a broker: topics are looked up in threads.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.partitioner import partition_of
from headrace.gateway.rest.cluster_calls import ClusterCalls
from headrace.gateway.rest.produce.produce_queue import Delivery, QueuedRecords
from headrace.gateway.rest.produce.record import Placed, PlacedRun, Record
from headrace.gateway.rest.produce.record_writer import RecordWriter
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

Outcomes = Sequence[Placed | ClientError]

_KNOWN_SECONDS: Final = 30.0
_MOST_TOPICS: Final = 10_000
_TURN_BYTES: Final = 16 << 10
_TURNS: Final = 1 << 16


class TopicLeaders(NamedTuple):
    """A topic's partitions and who leads them."""

    total: int
    leaders: dict[int, int]
    until: float


@dataclass(slots=True)
class _Turn:
    """Which partition of a topic has the records without a key, and how many bytes it has had."""

    number: int
    size: int = 0


class _PendingDelivery(Delivery):
    __slots__ = ("future",)

    def __init__(self, count: int, future: "asyncio.Future[Outcomes]") -> None:
        super().__init__(count)
        self.future = future


class Producer:
    """Writes records of requests.

    Example:
        leaders = await producer.find("clicks")
        outcomes = await producer.put("clicks", leaders, records)
    """

    def __init__(
        self, cluster: ClusterCalls, settings: ClientSettings, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._cluster = cluster
        self._loop = loop
        self._writer = RecordWriter(settings, _resolve, loop)
        self._topics: dict[str, TopicLeaders] = {}
        self._asked: dict[str, asyncio.Task[TopicLeaders]] = {}
        self._turns: dict[str, _Turn] = {}

    async def find(self, topic: str) -> TopicLeaders:
        """Return a topic's partitions, known for some seconds.

        Raises:
            BrokerError: there is no such topic.
        """
        known = self.known(topic)
        if known is not None:
            return known
        task = self._asked.get(topic)
        if task is None:
            task = self._asked[topic] = self._loop.create_task(self._ask(topic))
            task.add_done_callback(lambda _: self._asked.pop(topic, None))
        return await asyncio.shield(task)

    def known(self, topic: str) -> TopicLeaders | None:
        """Return a topic's partitions if they were asked for some seconds ago at most."""
        known = self._topics.get(topic)
        return known if known is not None and known.until > time.monotonic() else None

    def put(
        self, topic: str, leaders: TopicLeaders, records: Sequence[Record]
    ) -> "asyncio.Future[Outcomes]":
        """Write records; the result has an outcome for each, in their order.

        Records without partition and key of one call go to the same partition, and so do those of
        further calls until it has `_TURN_BYTES`: a batch for each of them would cost more than the
        records (KIP-794).
        """
        future: asyncio.Future[Outcomes] = self._loop.create_future()
        if not records:
            future.set_result([])
            return future
        delivery = _PendingDelivery(len(records), future)
        rows = self._placed(topic, leaders, records, delivery)
        if rows:
            try:
                self._writer.put(rows, leaders.leaders)
            except ClientError as error:
                future.set_exception(error)
        else:
            _resolve([delivery])
        return future

    def _placed(
        self, topic: str, leaders: TopicLeaders, records: Sequence[Record], delivery: Delivery
    ) -> dict[TopicPartition, QueuedRecords]:
        """Return records by their partitions; those whose partition is not there have failed."""
        turn = self._turn_of(topic)
        if all(each.key is None and each.partition is None for each in records):
            queued = QueuedRecords.of(records, range(len(records)), delivery)
            turn.size += queued.size_bytes
            return {TopicPartition(topic, turn.number % leaders.total): queued}
        places: dict[int, list[int]] = {}
        for index, record in enumerate(records):
            chosen = record.partition
            if chosen is None:
                if record.key is None:
                    chosen = turn.number % leaders.total
                    turn.size += record.size_bytes
                else:
                    chosen = partition_of(record.key, leaders.total) % leaders.total
            elif chosen not in leaders.leaders:
                delivery.finish(index, BrokerError(ErrorCode.unknown_topic_or_partition))
                continue
            places.setdefault(chosen, []).append(index)
        return {
            TopicPartition(topic, number): QueuedRecords.of(
                [records[each] for each in chosen], chosen, delivery
            )
            for number, chosen in places.items()
        }

    def _turn_of(self, topic: str) -> "_Turn":
        """Return whose turn it is in a topic: the next partition's if one has had enough."""
        turn = self._turns.get(topic)
        if turn is None:
            if len(self._turns) >= _MOST_TOPICS:
                self._turns.clear()
            # Proxies that start together do not all begin with the same partition.
            turn = self._turns[topic] = _Turn(secrets.randbelow(_TURNS))
        elif turn.size >= _TURN_BYTES:
            turn.number, turn.size = turn.number + 1, 0
        return turn

    async def stop(self) -> None:
        """Write what waits, then end."""
        await self._writer.stop()

    async def _ask(self, topic: str) -> TopicLeaders:
        def ask(pool: ConnectionPool) -> TopicLeaders:
            found = pool.metadata([topic]).topics.get(topic)
            if found is None or not found.partitions:
                error = None if found is None else found.error
                raise error or BrokerError(ErrorCode.unknown_topic_or_partition)
            leaders = {each.index: each.leader for each in found.partitions.values()}
            return TopicLeaders(len(leaders), leaders, time.monotonic() + _KNOWN_SECONDS)

        found = await self._cluster.run(ask)
        if len(self._topics) >= _MOST_TOPICS:
            self._topics.clear()
        self._topics[topic] = found
        return found


def _resolve(deliveries: list[Delivery]) -> None:
    for each in deliveries:
        assert isinstance(each, _PendingDelivery)
        if not each.future.done():  # its request may be gone
            outcomes = each.outcomes
            each.future.set_result(
                outcomes
                if isinstance(outcomes, PlacedRun)
                else [one for one in outcomes if one is not None]
            )
