"""The regex_filter interceptor: keeps or drops events by a regular expression."""

from itertools import compress

from headrace.ingest.event import EventBatch
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.interceptors.pattern import compile_pattern
from headrace.ingest.settings import Settings, flag, text


class RegexFilterInterceptor(Interceptor):
    """Keeps events whose body matches somewhere, or with `excludeEvents` the others."""

    SETTINGS = (
        text("regex", "The regular expression.", ".*"),
        flag("excludeEvents", "Drop matching events.", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._search = compile_pattern(settings, "regex", settings.text("regex")).search
        self._exclude = settings.flag("excludeEvents")

    def intercept(self, batch: EventBatch) -> EventBatch:
        exclude = self._exclude
        keep = [(found is None) is exclude for found in map(self._search, batch.bodies)]
        return EventBatch(
            list(compress(batch.bodies, keep)), list(compress(batch.headers, keep)), batch.marks
        )
