"""Where events go."""

from abc import ABC, abstractmethod
from enum import Enum
from threading import Event as Signal
from typing import ClassVar

from headrace.ingest.channel import Channel
from headrace.ingest.component import Component
from headrace.ingest.event import Batch
from headrace.ingest.settings import Settings


class Status(Enum):
    """What a turn of a sink came to: BACKOFF when there was nothing to do."""

    READY = "ready"
    BACKOFF = "backoff"


class Sink(Component, ABC):
    """Takes batches from one channel and hands them on.

    To implement: `deliver`. Named as `type = module:Class`. The agent sets `channel` before
    `start`.

    A batch is gone from the channel when `deliver` returns, and back in it when `deliver` raises,
    so `deliver` returns only when the events are safe where they went. After a failure it is called
    again with the same events, possibly cut differently: at least once.
    """

    BATCH_SETTING: ClassVar[str | None] = "batchSize"
    DEFAULT_BATCH_SIZE: ClassVar[int] = 100
    COUNTERS = (
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

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self.stopping = Signal()

    @property
    def batch_size(self) -> int:
        """How many events to take at once."""
        declared = {each.name for each in self.SETTINGS}
        if self.BATCH_SETTING in declared:
            assert self.BATCH_SETTING is not None
            return self.settings.number(self.BATCH_SETTING)
        return self.DEFAULT_BATCH_SIZE

    @abstractmethod
    def deliver(self, batch: Batch) -> None:
        """Hand on all of them, or raise.

        Raises:
            DeliveryFailed: the events stay in the channel, and there is another try.
        """

    def process(self) -> Status:
        """One turn: take, deliver, commit."""
        wanted = min(self.batch_size, self.channel.transaction_capacity)
        with self.channel.begin() as transaction:
            batch = transaction.take(wanted)
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
        full = len(batch) >= wanted
        self.counters.add("BatchCompleteCount" if full else "BatchUnderflowCount")
        self.counters.add("EventDrainSuccessCount", len(batch))
        return Status.READY

    def idle(self) -> None:
        """Called when the channel had nothing for a while: roll files, close connections."""
