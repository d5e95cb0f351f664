"""Replacing text in bodies."""

import re

from headrace.ingest.event import Batch
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.interceptors.pattern import compile_pattern, replacement
from headrace.ingest.settings import Settings, text


class SearchReplaceInterceptor(Interceptor):
    """Every match of `searchPattern` becomes `replaceString`, in which `$1` is a group."""

    SETTINGS = (
        text("searchPattern", "What to replace.", required=True),
        text("replaceString", "What to put there.", ""),
        text("charset", "Of the bodies; matching works on bytes.", "UTF-8"),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        written = settings.text("searchPattern")
        self._pattern = compile_pattern(settings, "searchPattern", written)
        self._by = replacement(settings.text("replaceString"))
        try:
            self._pattern.sub(self._by, b"")
        except (re.error, IndexError) as error:
            raise settings.wrong(
                "replaceString", f"replaceString names a group that is not there: {error}"
            ) from None

    def intercept(self, batch: Batch) -> Batch:
        sub, by = self._pattern.sub, self._by
        return batch.with_bodies([sub(by, body) for body in batch.bodies])
