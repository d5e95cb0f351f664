"""The logger sink: events in the agent's log."""

import structlog

from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings, number
from headrace.ingest.sink import Sink

_log = structlog.get_logger(__name__)


class LoggerSink(Sink):
    """Logs headers and the first bytes of the body, as text and in hexadecimal, as Flume does."""

    SETTINGS = (number("maxBytesToLog", "How many bytes of a body to show.", 16),)

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._shown_bytes = settings.number("maxBytesToLog")

    def deliver(self, batch: EventBatch) -> None:
        for event in batch:
            start = event.body[: self._shown_bytes]
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in start)
            _log.info(
                "event",
                sink=self.name,
                headers=event.headers,
                hex=start.hex(" ").upper(),
                body=text,
            )
