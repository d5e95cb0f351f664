"""The null sink: events are discarded."""

import structlog

from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings, number
from headrace.ingest.sink import Sink

_log = structlog.get_logger(__name__)


class NullSink(Sink):
    """Discards all events, and logs their number at intervals."""

    SETTINGS = (
        number("batchSize", "Events per batch.", 100, minimum=1),
        number("logEveryNEvents", "How often to log the number.", 10_000, minimum=1),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._every = settings.number("logEveryNEvents")
        self._count = 0

    def deliver(self, batch: EventBatch) -> None:
        before, self._count = self._count, self._count + len(batch)
        if self._count // self._every > before // self._every:
            _log.info("events_discarded", sink=self.name, count=self._count)
