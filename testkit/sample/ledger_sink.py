"""A sink that commits events and marks together, as the kafka sink does in a transaction."""

from collections.abc import Mapping
from typing import ClassVar

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.ledger import MarkCache
from headrace.ingest.settings import Settings, text
from headrace.ingest.sink import Sink, Status


class SampleTopic:
    """What the sinks of one name have committed.

    Attributes:
        failing: nothing can be committed while it is set.
    """

    def __init__(self, identity: str = "") -> None:
        self.identity = identity
        self.bodies: list[bytes] = []
        self.marks = MarkCache()
        self.failing = False

    def load(self) -> Mapping[str, str]:
        return self.marks.all()

    committed = load


class LedgerSink(Sink):
    """`type = testkit.sample.ledger_sink:LedgerSink`. The topic outlives the sink."""

    SETTINGS = (text("topic", "The name of the topic.", required=True),)
    BATCH_SETTING = None
    topics: ClassVar[dict[str, SampleTopic]] = {}

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        topic = settings.text("topic")
        self.ledger = self.topics.setdefault(topic, SampleTopic(topic))

    def deliver(self, batch: EventBatch) -> None:
        if self.ledger.failing:
            raise DeliveryFailed(f"sink {self.name} fails on purpose")
        self.ledger.bodies += batch.bodies
        self.ledger.marks.update(batch.marks or {})

    def process(self) -> Status:
        with self.channel.begin() as transaction:
            batch = transaction.take(self.batch_size)
            if not len(batch) and batch.marks is None:
                return Status.BACKOFF
            self.deliver(batch)
        return Status.READY
