"""Where events come from."""

from abc import ABC, abstractmethod
from threading import Event as Signal
from typing import ClassVar

from headrace.ingest.channel_processor import ChannelProcessor
from headrace.ingest.component import Component
from headrace.ingest.event import Batch
from headrace.ingest.ledger import Ledger
from headrace.ingest.settings import Settings


class Source(Component):
    """Makes events and hands them to `deliver` or `deliver_patiently`.

    To implement: a `PollableSource`, which an own thread of the agent asks for more, or a source
    that starts its own threads in `start` and ends them in `stop`. Named as `type = module:Class`.

    The agent sets `processor` before `start`.

    Attributes:
        stopping: set before `stop`; every loop and every wait looks at it.
    """

    # The setting that says how many events go in one transaction, checked against its channels.
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

    def deliver(self, batch: Batch) -> None:
        """Put a batch into the channels.

        Raises:
            ChannelError: it is not in all of them: keep the events and try again.
        """
        self.counters.add("EventReceivedCount", len(batch))
        try:
            self.processor.process(batch)
        except Exception:
            self.counters.add("ChannelWriteFail")
            raise
        self.counters.add("EventAcceptedCount", len(batch))

    def deliver_patiently(self, batch: Batch) -> bool:
        """Put a batch into the channels, however long that takes; False when we stop instead."""
        self.counters.add("EventReceivedCount", len(batch))
        done = self.processor.process_patiently(batch, self.stopping.wait)
        self.counters.add("EventAcceptedCount" if done else "ChannelWriteFail", len(batch))
        return done


class PollableSource(Source, ABC):
    """A source that is asked.

    To implement: `poll`, which reads some events, delivers them and says whether there were any. It
    runs in one thread of its own and may raise: the agent logs that and pauses, longer each time.
    """

    @abstractmethod
    def poll(self) -> bool:
        """Whether there may be more at once; after False the agent pauses a little."""


class ReplayableSource(PollableSource):
    """A pollable source that can be told where to go on, so that its position can be kept together
    with what was delivered (decision 0013).

    With a ledger, every batch carries marks, and the source keeps no position of its own.
    """

    ledger: Ledger | None = None
