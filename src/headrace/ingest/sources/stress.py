"""The stress source: the same event, as fast as the channel accepts it."""

from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings, number
from headrace.ingest.source import PollableSource


class StressSource(PollableSource):
    """Produces events to measure the throughput of a flow."""

    SETTINGS = (
        number("size", "Bytes of a body.", 500),
        number("maxTotalEvents", "Stop after so many; -1 means never.", -1, minimum=-1),
        number("maxSuccessfulEvents", "The same, counting those delivered.", -1, minimum=-1),
        number("batchSize", "Events in one transaction.", 1, minimum=1),
        number("maxEventsPerSecond", "At most so many; 0 means no limit.", 0),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._body = b"\xff" * settings.number("size")
        limits = [settings.number("maxTotalEvents"), settings.number("maxSuccessfulEvents")]
        given = [limit for limit in limits if limit >= 0]
        self._left = min(given) if given else -1
        self._batch = settings.number("batchSize")
        self._per_second = settings.number("maxEventsPerSecond")

    def poll(self) -> bool:
        count = self._batch if self._left < 0 else min(self._batch, self._left)
        if not count:
            return False
        self.deliver(EventBatch.plain([self._body] * count))
        if self._left > 0:
            self._left -= count
        if self._per_second:
            self.stopping.wait(count / self._per_second)
        return True
