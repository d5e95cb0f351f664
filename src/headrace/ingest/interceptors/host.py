"""The host interceptor: a header with this machine."""

import socket

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.settings import Settings, flag, text


class HostInterceptor(Interceptor):
    """Adds the address of this machine, or its name with `useIP = false`; looked up once."""

    SETTINGS = (
        text("hostHeader", "The header to write.", "host"),
        flag("useIP", "Write the address instead of the name.", True),
        flag("preserveExisting", "Keep an existing header.", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._header = settings.text("hostHeader")
        self._preserve = settings.flag("preserveExisting")
        host = socket.gethostname()
        self._host = _address(host) if settings.flag("useIP") else host

    def intercept(self, batch: EventBatch) -> EventBatch:
        def change(headers: Headers) -> Headers:
            if self._preserve and self._header in headers:
                return headers
            return {**headers, self._header: self._host}

        return batch.map_headers(change)


def _address(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return "127.0.0.1"
