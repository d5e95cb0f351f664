"""The base class of the syslog sources."""

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.format.syslog import SyslogParser, kept_fields
from headrace.ingest.settings import Setting, Settings, number, prefix, text
from headrace.ingest.source import Source

SYSLOG_SETTINGS: tuple[Setting, ...] = (
    number("eventSize", "Longest message in bytes; a longer one is split.", 2500, minimum=10),
    text("keepFields", "Fields that stay in the body: none, all, or their names.", "none"),
    text("clientIPHeader", "The header for the sender's address."),
    text("clientHostnameHeader", "The header for the sender's name."),
    prefix("format", "Ignored: the formats of both RFCs are known."),
)


class SyslogSource(Source):
    """Parses messages into events; subclasses receive them."""

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        try:
            self._keep = kept_fields(settings.text("keepFields"))
        except ValueError as error:
            raise settings.wrong("keepFields", f"keepFields: {error}") from None
        self._ip_header = settings.optional("clientIPHeader")
        self._host_header = settings.optional("clientHostnameHeader")
        self.event_size = settings.number("eventSize")

    def parser(self) -> SyslogParser:
        """Return a parser for one thread: it caches headers."""
        return SyslogParser(self._keep)

    def peer_headers(self, address: str) -> Headers:
        """Return the headers with the address of the sender, if the settings name them."""
        headers: Headers = {}
        if self._ip_header:
            headers[self._ip_header] = address
        if self._host_header:
            headers[self._host_header] = address
        return headers

    def batch_of(self, parser: SyslogParser, messages: list[bytes], extra: Headers) -> EventBatch:
        """Return the events of some messages, with extra headers."""
        batch = parser.parse_all(messages)
        return batch.map_headers(lambda own: {**own, **extra}) if extra else batch
