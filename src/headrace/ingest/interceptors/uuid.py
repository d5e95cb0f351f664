"""The uuid interceptor: a unique id for every event."""

import uuid

from headrace.ingest.event import EventBatch
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.settings import Settings, flag, text


class UuidInterceptor(Interceptor):
    """Adds a random UUID as a header, by which later components find duplicates."""

    SETTINGS = (
        text("headerName", "The header to write.", "id"),
        flag("preserveExisting", "Keep an existing header.", True),
        text("prefix", "A text before it.", ""),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._header = settings.text("headerName")
        self._preserve = settings.flag("preserveExisting")
        self._prefix = settings.text("prefix")

    def intercept(self, batch: EventBatch) -> EventBatch:
        header, start = self._header, self._prefix
        headers = [
            before
            if self._preserve and header in before
            else {**before, header: f"{start}{uuid.uuid4()}"}
            for before in batch.headers
        ]
        return batch.with_headers(headers)
