"""Fetches the status that agents and flows serve over HTTP.

Only URLs that the operator named, and those of flows that the user runs on this machine, are
fetched. The answers come from other programs: they are bounded, and checked to be JSON objects.
"""

import json
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final

_MOST_BYTES: Final = 1024 * 1024
_SECONDS: Final = 3.0
_LONGEST_SECONDS: Final = 6.0
_CHUNK_BYTES: Final = 64 * 1024


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *redirect: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))


def _read(response: Any, url: str) -> bytes:
    """Read a body, bounded in bytes and in time: a server that sends a byte per second must not
    block the poll."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    body = b""
    while len(body) < _MOST_BYTES and (chunk := response.read1(_CHUNK_BYTES)):
        body += chunk
        if time.monotonic() > deadline:
            raise OSError(f"{url} does not answer in {_LONGEST_SECONDS:g} s")
    return body


def fetch_json(url: str) -> dict[str, Any]:
    """Return the JSON object at a URL.

    Raises:
        OSError: the server does not answer, or not with a JSON object; the message says which.
    """
    try:
        with _OPENER.open(url, timeout=_SECONDS) as response:
            value = json.loads(_read(response, url))
    except urllib.error.HTTPError as error:
        raise OSError(f"{url} answers {error.code}") from error
    except (urllib.error.URLError, TimeoutError, HTTPException) as error:
        raise OSError(f"{url} does not answer: {getattr(error, 'reason', error)}") from error
    except (ValueError, RecursionError) as error:
        raise OSError(f"{url} does not serve JSON") from error
    if not isinstance(value, dict):
        raise OSError(f"{url} does not serve a JSON object")
    return value
