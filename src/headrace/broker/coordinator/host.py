"""What the coordinators need of the broker they live in."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from headrace.broker.peer.transaction_client import TransactionClient
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import HostedTopic, TopicTable
from headrace.model.clock import Clock
from headrace.model.ids import ProducerId

Result = TypeVar("Result")


class CoordinatorHost(Protocol):
    """The broker, seen from a coordinator."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def topics(self) -> TopicTable: ...

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run blocking work off the loop."""

    async def internal_topic(self, name: str) -> HostedTopic:
        """The topic a coordinator keeps its records in, made if it is not there yet."""

    def when_synced(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        """Done when every record below `end` is on disk."""

    def when_safe(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        """Done when every record below `end` is with all replicas in sync, and on disk if asked."""

    @property
    def transaction_client(self) -> TransactionClient: ...

    def take_producer_id(self) -> ProducerId | None:
        """An id never given before; None while more of them are being claimed."""
