"""The Avro schema of an event whose body is one datum, as Flume's AvroEventSerializer finds it.

The header `flume.avro.schema.literal` has its text, or `flume.avro.schema.url` its place; without
them `schemaURL` of the configuration counts. Flume opens every URL that an event names. Events come
from others, and a URL can name a file of this machine or a server behind its firewall: so a header
counts only if it begins as one of `allowedSchemaURLs`.
"""

import json
from collections import OrderedDict
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import Headers
from headrace.model.error import ConfigError

LITERAL_HEADER: Final = "flume.avro.schema.literal"
URL_HEADER: Final = "flume.avro.schema.url"

_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1 << 20
_MOST_KEPT: Final = 200


class EventSchemas:
    """Finds schemas, and keeps those of URLs, the last 200.

    Args:
        default_url: for events that name none.
        allowed: what a URL in a header begins with.

    Threads: one; a URL is read by the first event that needs it.

    Raises:
        ConfigError: a URL that cannot be read from.
    """

    def __init__(self, default_url: str | None = None, allowed: tuple[str, ...] = ()) -> None:
        if default_url is not None:
            _check(default_url)
        for each in allowed:
            if urlsplit(each).scheme in ("http", "https") and "/" not in urlsplit(each).path:
                raise ConfigError(f"allowedSchemaURLs has {each!r}: end it with / behind the host")
        self._default_url = default_url
        self._allowed = allowed
        self._kept: OrderedDict[str, str] = OrderedDict()

    def text(self, headers: Headers) -> str:
        """Return the schema of an event.

        Raises:
            DeliveryFailed: it has none, or its place cannot be read.
        """
        literal = headers.get(LITERAL_HEADER)
        if literal is not None:
            return literal
        url = headers.get(URL_HEADER)
        if url is None:
            url = self._default_url
            if url is None:
                raise DeliveryFailed(
                    f"an event has no Avro schema: send the header {LITERAL_HEADER}, or set "
                    "schemaURL"
                )
        elif not self._allowed or not url.startswith(self._allowed) or ".." in unquote(url):
            raise DeliveryFailed(
                f"an event names its schema with {URL_HEADER}, which allowedSchemaURLs does not "
                "cover"
            )
        found = self._kept.get(url)
        if found is None:
            found = self._kept[url] = _read(url)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found


def _check(url: str) -> None:
    if urlsplit(url).scheme not in ("", "file", "http", "https"):
        raise ConfigError(f"schemaURL is {url!r}: write a file or an http URL")


def _read(url: str) -> str:
    parts = urlsplit(url)
    try:
        if parts.scheme in ("http", "https"):
            with urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310, checked above
                data: bytes = answer.read(_MOST_BYTES + 1)
        elif parts.scheme in ("", "file"):
            with Path(unquote(parts.path)).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        else:
            raise DeliveryFailed(f"a schema cannot be read from {parts.scheme}: URLs")
        if len(data) > _MOST_BYTES:
            raise DeliveryFailed("a schema has more than 1 MiB")
        text = data.decode()
        json.loads(text)
    except (OSError, URLError, ValueError, RecursionError) as error:
        raise DeliveryFailed(f"the schema at {url} cannot be read: {error}") from error
    return text
