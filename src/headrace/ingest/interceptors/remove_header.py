"""The remove_header interceptor."""

import re

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.settings import Settings, text


class RemoveHeaderInterceptor(Interceptor):
    """Removes headers by name, by a list of names, or by a regular expression for the whole
    name."""

    SETTINGS = (
        text("withName", "One header."),
        text("fromList", "Several headers."),
        text("fromListSeparator", "The separator, as a regular expression.", r"\s*,\s*"),
        text("matching", "A regular expression for names."),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        listed = settings.optional("fromList")
        self._names: set[str] = set()
        if listed is not None:
            self._names.update(re.split(settings.text("fromListSeparator"), listed.strip()))
        if (one := settings.optional("withName")) is not None:
            self._names.add(one)
        self._matches = None
        if (matching := settings.optional("matching")) is not None:
            try:
                self._matches = re.compile(matching).fullmatch
            except re.error as error:
                raise settings.wrong(
                    "matching", f"matching {matching!r} is no regular expression: {error}"
                ) from None
        if not self._names and self._matches is None:
            raise settings.wrong(
                "withName", "remove_header names no header: write withName, fromList or matching"
            )

    def intercept(self, batch: EventBatch) -> EventBatch:
        def change(headers: Headers) -> Headers:
            return {
                name: value
                for name, value in headers.items()
                if name not in self._names and not (self._matches and self._matches(name))
            }

        return batch.map_headers(change)
