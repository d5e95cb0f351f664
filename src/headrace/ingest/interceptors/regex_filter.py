"""Keeping or dropping events by a regular expression."""

from itertools import compress

from headrace.ingest.event import Batch
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.interceptors.pattern import compile_pattern
from headrace.ingest.settings import Settings, flag, text


class RegexFilterInterceptor(Interceptor):
    """Keeps events in whose body the expression is found, or with `excludeEvents` the others."""

    SETTINGS = (
        text("regex", "What to look for.", ".*"),
        flag("excludeEvents", "Drop what matches.", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._search = compile_pattern(settings, "regex", settings.text("regex")).search
        self._exclude = settings.flag("excludeEvents")

    def intercept(self, batch: Batch) -> Batch:
        exclude = self._exclude
        keep = [(found is None) is exclude for found in map(self._search, batch.bodies)]
        return Batch(
            list(compress(batch.bodies, keep)), list(compress(batch.headers, keep)), batch.marks
        )
