"""The timestamp interceptor: a header with the present time."""

import time

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.settings import Settings, flag, text


class TimestampInterceptor(Interceptor):
    """Adds the milliseconds since 1970; the events of a batch get the same."""

    SETTINGS = (
        text("headerName", "The header to write.", "timestamp", other_names=("header",)),
        flag("preserveExisting", "Keep an existing header.", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._header = settings.text("headerName")
        self._preserve = settings.flag("preserveExisting")

    def intercept(self, batch: EventBatch) -> EventBatch:
        now = str(time.time_ns() // 1_000_000)

        def change(headers: Headers) -> Headers:
            if self._preserve and self._header in headers:
                return headers
            return {**headers, self._header: now}

        return batch.map_headers(change)
