"""The regex_extractor interceptor: headers from groups of a regular expression."""

import calendar
import re
import time
from collections.abc import Callable

from headrace.ingest.config.java_class import simple_name
from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.format.java_date import strptime_format
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.interceptors.pattern import compile_pattern
from headrace.ingest.settings import Settings, prefix, text

Serializer = Callable[[str], str]


class RegexExtractorInterceptor(Interceptor):
    """Writes group n to the header that serializer n names. A serializer keeps the text, or turns a
    date in a `pattern` into milliseconds."""

    SETTINGS = (
        text("regex", "A regular expression with groups.", required=True),
        text("serializers", "One per group.", required=True),
        prefix("serializers", "The header each writes (name), its type and its pattern."),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        pattern = compile_pattern(settings, "regex", settings.text("regex"))
        self._search = pattern.search
        self._targets = [
            _target(settings, serializer) for serializer in settings.words("serializers")
        ]
        if len(self._targets) > pattern.groups:
            raise settings.wrong(
                "serializers",
                f"there are {len(self._targets)} serializers and {pattern.groups} groups in the "
                "expression: give each serializer a group",
            )

    def intercept(self, batch: EventBatch) -> EventBatch:
        headers = [
            before if (found := self._search(body)) is None else self._with(before, found)
            for body, before in zip(batch.bodies, batch.headers, strict=True)
        ]
        return batch.with_headers(headers)

    def _with(self, headers: Headers, found: "re.Match[bytes]") -> Headers:
        changed = dict(headers)
        for group, (header, serialize) in zip(found.groups(), self._targets, strict=False):
            if group is not None:
                changed[header] = serialize(group.decode("utf-8", "replace"))
        return changed


def _target(settings: Settings, serializer: str) -> tuple[str, Serializer]:
    own = {
        key.removeprefix(f"{serializer}."): value
        for key, value in settings.below("serializers").items()
        if key.startswith(f"{serializer}.")
    }
    key = f"serializers.{serializer}.name"
    if "name" not in own:
        raise settings.wrong(key, f"{key} is missing: name the header to write")
    kind = own.get("type", "default")
    if simple_name(kind) == "RegexExtractorInterceptorMillisSerializer":
        pattern = f"serializers.{serializer}.pattern"
        if "pattern" not in own:
            raise settings.wrong(pattern, f"{pattern} is missing: it says how dates are written")
        return own["name"], _millis(settings, pattern, own["pattern"])
    if kind.lower() == "default" or simple_name(kind).endswith("PassThroughSerializer"):
        return own["name"], str
    raise settings.wrong(
        f"serializers.{serializer}.type",
        f"there is no serializer {kind!r}: write default, or "
        "org.apache.flume.interceptor.RegexExtractorInterceptorMillisSerializer",
    )


def _millis(settings: Settings, key: str, pattern: str) -> Serializer:
    try:
        form = strptime_format(pattern)
    except ValueError as error:
        raise settings.wrong(key, f"{key} {pattern!r} cannot be read: {error}") from None

    def serialize(written: str) -> str:
        try:
            moment = time.strptime(written, form)
        except ValueError:
            return written  # keep an event with an invalid date
        offset = moment.tm_gmtoff
        seconds = time.mktime(moment) if offset is None else calendar.timegm(moment) - offset
        return str(int(seconds) * 1000)

    return serialize
