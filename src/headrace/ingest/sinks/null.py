"""Events go nowhere."""

import structlog

from headrace.ingest.event import Batch
from headrace.ingest.settings import Settings, number
from headrace.ingest.sink import Sink

_log = structlog.get_logger(__name__)


class NullSink(Sink):
    """Throws everything away, and says now and then how much that was."""

    SETTINGS = (
        number("batchSize", "Events taken at once.", 100, minimum=1),
        number("logEveryNEvents", "How often to say so.", 10_000, minimum=1),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._every = settings.number("logEveryNEvents")
        self._count = 0

    def deliver(self, batch: Batch) -> None:
        before, self._count = self._count, self._count + len(batch)
        if self._count // self._every > before // self._every:
            _log.info("events_thrown_away", sink=self.name, count=self._count)
