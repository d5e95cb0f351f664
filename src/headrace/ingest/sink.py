"""The base class of sinks, which deliver events."""

from abc import ABC, abstractmethod
from enum import Enum
from threading import Event as Signal
from typing import ClassVar

from headrace.ingest.channel import Channel
from headrace.ingest.component import Component
from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings


class Status(Enum):
    """What `process` did: BACKOFF means that there was no event."""

    READY = "ready"
    BACKOFF = "backoff"


class Sink(Component, ABC):
    """Takes batches from one channel and delivers them.

    To implement: `deliver`. A configuration names it as `type = module:Class`. The agent sets
    `channel` before `start`.

    A batch leaves the channel when `deliver` returns, and goes back when `deliver` raises: so
    `deliver` must return only when the events are safe at their destination. After a failure it is
    called again with the same events, possibly in other batches: delivery is at least once.

    Attributes:
        stopping: set before `stop`; a `deliver` that waits must return soon after.
        trusts_headers: all events come from one exactly-once source, so that no sender of events
            has chosen their headers. The agent sets it before `start`.
    """

    BATCH_SETTING: ClassVar[str | None] = "batchSize"
    DEFAULT_BATCH_SIZE: ClassVar[int] = 100
    COUNTERS: ClassVar[tuple[str, ...]] = (
        "ConnectionCreatedCount",
        "ConnectionClosedCount",
        "ConnectionFailedCount",
        "BatchEmptyCount",
        "BatchUnderflowCount",
        "BatchCompleteCount",
        "EventDrainAttemptCount",
        "EventDrainSuccessCount",
        "EventWriteFail",
        "ChannelReadFail",
    )

    channel: Channel
    trusts_headers: bool = False

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self.stopping = Signal()

    @property
    def batch_size(self) -> int:
        """How many events to take per batch."""
        declared = {each.name for each in self.SETTINGS}
        if self.BATCH_SETTING in declared:
            assert self.BATCH_SETTING is not None
            return self.settings.number(self.BATCH_SETTING)
        return self.DEFAULT_BATCH_SIZE

    @abstractmethod
    def deliver(self, batch: EventBatch) -> None:
        """Deliver all events, or raise.

        Raises:
            DeliveryFailed: the events stay in the channel and are retried.
        """

    def process(self) -> Status:
        """Take a batch, deliver it, and commit."""
        limit = min(self.batch_size, self.channel.transaction_capacity)
        with self.channel.begin() as transaction:
            batch = transaction.take(limit)
            if not len(batch):
                self.counters.add("BatchEmptyCount")
                self.idle()
                return Status.BACKOFF
            self.counters.add("EventDrainAttemptCount", len(batch))
            try:
                self.deliver(batch)
            except Exception:
                self.counters.add("EventWriteFail")
                raise
        full = len(batch) >= limit
        self.counters.add("BatchCompleteCount" if full else "BatchUnderflowCount")
        self.counters.add("EventDrainSuccessCount", len(batch))
        return Status.READY

    def idle(self) -> None:
        """Close files and connections that are due; called when the channel was empty."""
