"""The base classes of sources, which produce events."""

from abc import ABC, abstractmethod
from threading import Event as Signal
from typing import ClassVar

from headrace.ingest.channel_processor import ChannelProcessor
from headrace.ingest.component import Component
from headrace.ingest.event import EventBatch
from headrace.ingest.ledger import Ledger
from headrace.ingest.settings import Settings


class Source(Component):
    """Produces events and passes them to `deliver` or `deliver_with_retries`.

    To implement: a `PollableSource`, which a thread of the agent polls, or a source that starts its
    own threads in `start` and ends them in `stop`. A configuration names it as
    `type = module:Class`.

    The agent sets `processor` before `start`.

    Attributes:
        stopping: set before `stop`; every loop and every wait checks it.
    """

    # The setting with the events per transaction, which the agent checks against the channels.
    BATCH_SETTING: ClassVar[str | None] = "batchSize"
    COUNTERS = (
        "EventReceivedCount",
        "EventAcceptedCount",
        "AppendReceivedCount",
        "AppendAcceptedCount",
        "AppendBatchReceivedCount",
        "AppendBatchAcceptedCount",
        "OpenConnectionCount",
        "ChannelWriteFail",
        "EventReadFail",
    )

    processor: ChannelProcessor

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self.stopping = Signal()

    def deliver(self, batch: EventBatch) -> None:
        """Put a batch into the channels.

        Raises:
            ChannelError: a channel did not accept it: keep the events and retry.
        """
        self.counters.add("EventReceivedCount", len(batch))
        try:
            self.processor.process(batch)
        except Exception:
            self.counters.add("ChannelWriteFail")
            raise
        self.counters.add("EventAcceptedCount", len(batch))

    def deliver_with_retries(self, batch: EventBatch) -> bool:
        """Put a batch into the channels, however long that takes. Return False if the agent stops
        first."""
        self.counters.add("EventReceivedCount", len(batch))
        done = self.processor.process_with_retries(batch, self.stopping.wait)
        self.counters.add("EventAcceptedCount" if done else "ChannelWriteFail", len(batch))
        return done


class PollableSource(Source, ABC):
    """A source that a thread of the agent polls.

    To implement: `poll`, which reads some events and delivers them. It may raise: the agent logs
    the error and retries after a pause that grows.
    """

    @abstractmethod
    def poll(self) -> bool:
        """Read and deliver some events. Return whether there may be more; after False the agent
        pauses a little."""


class ReplayableSource(PollableSource):
    """A pollable source that can continue at a given position, so that the position can be stored
    with the events it delivered (decision 0013).

    With a ledger, every batch carries marks, and the source stores no position itself. `start`
    begins at the committed marks. The caller has dropped all uncommitted events of the source from
    its channel before, also when it starts again in the same run.
    """

    ledger: Ledger | None = None
