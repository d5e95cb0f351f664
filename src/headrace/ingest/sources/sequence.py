"""The seq source: numbers from 0 on."""

from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings, number
from headrace.ingest.source import PollableSource


class SequenceSource(PollableSource):
    """Produces numbers, to test that a flow loses and repeats none."""

    SETTINGS = (
        number("batchSize", "Events in one transaction.", 1, minimum=1),
        number("totalEvents", "How many events to produce.", 2**63 - 1),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._next = 0
        self._end = settings.number("totalEvents")
        self._batch = settings.number("batchSize")

    def poll(self) -> bool:
        stop = min(self._next + self._batch, self._end)
        if stop <= self._next:
            return False
        self.deliver(EventBatch.plain([b"%d" % value for value in range(self._next, stop)]))
        self._next = stop
        return True
