"""The static interceptor: the same header for every event."""

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.settings import Settings, flag, text


class StaticInterceptor(Interceptor):
    """Adds the header `key` with `value`, such as the data centre."""

    SETTINGS = (
        text("key", "The header to write.", "key"),
        text("value", "Its value.", "value"),
        flag("preserveExisting", "Keep an existing header.", True),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._added = {settings.text("key"): settings.text("value")}
        self._preserve = settings.flag("preserveExisting")

    def intercept(self, batch: EventBatch) -> EventBatch:
        def change(headers: Headers) -> Headers:
            return {**self._added, **headers} if self._preserve else {**headers, **self._added}

        return batch.map_headers(change)
