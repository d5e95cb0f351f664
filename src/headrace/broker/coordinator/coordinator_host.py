"""What the coordinators need of the broker they live in."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from headrace.broker.coordinator.producer_id_source import ProducerIdSource
from headrace.broker.peer.transaction_client import TransactionClient
from headrace.broker.replica.batch_opener import BatchOpener
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import HostedTopic, TopicTable
from headrace.cluster.topic import TopicRecord
from headrace.model.clock import Clock
from headrace.model.ids import TopicPartition

Result = TypeVar("Result")


class ClusterTopics(Protocol):
    """The topics of the cluster, whether this broker serves them yet or not."""

    async def internal_topic(self, name: str) -> HostedTopic:
        """Return the topic of a coordinator, after creating it if it does not exist."""

    def knows(self, name: TopicPartition) -> bool:
        """Return whether a partition exists, as far as this broker has read."""

    async def read_topics(self, names: Iterable[str]) -> dict[str, TopicRecord]:
        """Return those of the topics that exist, as the cluster's store has them now."""


class CoordinatorHost(Protocol):
    """The broker, seen from a coordinator."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def topics(self) -> TopicTable: ...

    @property
    def controller(self) -> ClusterTopics: ...

    @property
    def batch_opener(self) -> BatchOpener: ...

    @property
    def producer_ids(self) -> ProducerIdSource: ...

    @property
    def transaction_client(self) -> TransactionClient: ...

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run blocking work off the loop."""

    def when_synced(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        """Return a future that is done when every record below `end` is on disk."""

    def when_safe(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        """Return a future that is done when every record below `end` is with all replicas in sync,
        and on disk where the topic asks for that."""
