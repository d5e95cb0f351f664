"""When an event was seen, as a header."""

import time

from headrace.ingest.event import Batch, Headers
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.settings import Settings, flag, text


class TimestampInterceptor(Interceptor):
    """Milliseconds since 1970; the events of a batch get the same."""

    SETTINGS = (
        text("headerName", "Which header to write.", "timestamp", other_names=("header",)),
        flag("preserveExisting", "Leave a header that is there.", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._header = settings.text("headerName")
        self._preserve = settings.flag("preserveExisting")

    def intercept(self, batch: Batch) -> Batch:
        now = str(time.time_ns() // 1_000_000)

        def change(headers: Headers) -> Headers:
            if self._preserve and self._header in headers:
                return headers
            return {**headers, self._header: now}

        return batch.map_headers(change)
