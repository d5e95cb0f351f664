"""The search_replace interceptor: replaces text in bodies."""

import re

from headrace.ingest.event import EventBatch
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.interceptors.pattern import compile_pattern, replacement
from headrace.ingest.settings import Settings, text


class SearchReplaceInterceptor(Interceptor):
    """Replaces every match of `searchPattern` by `replaceString`, in which `$1` is a group."""

    SETTINGS = (
        text("searchPattern", "The regular expression.", required=True),
        text("replaceString", "The replacement.", ""),
        text("charset", "Ignored: bytes are matched.", "UTF-8"),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        written = settings.text("searchPattern")
        self._pattern = compile_pattern(settings, "searchPattern", written)
        self._replacement = replacement(settings.text("replaceString"))
        try:
            self._pattern.sub(self._replacement, b"")
        except (re.error, IndexError) as error:
            raise settings.wrong(
                "replaceString", f"replaceString names a group that is not there: {error}"
            ) from None

    def intercept(self, batch: EventBatch) -> EventBatch:
        sub, replacement = self._pattern.sub, self._replacement
        return batch.with_bodies([sub(replacement, body) for body in batch.bodies])
