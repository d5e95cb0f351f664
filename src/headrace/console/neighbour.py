"""Agents and flows beside the cluster: what they serve about themselves over HTTP.

Only addresses the operator named, and those of flows that the user runs on this machine, are asked.
What comes is data of somebody else's: bounded, and checked to be what it should be.
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
    def redirect_request(self, *told: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))


def _read(answer: Any, url: str) -> bytes:
    """What comes, up to a bound in bytes and in time: nobody holds us up with a byte a second."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    found = b""
    while len(found) < _MOST_BYTES and (chunk := answer.read1(_CHUNK_BYTES)):
        found += chunk
        if time.monotonic() > deadline:
            raise OSError(f"{url} does not answer in {_LONGEST_SECONDS:g} s")
    return found


def fetch_json(url: str) -> dict[str, Any]:
    """The JSON object that somebody serves.

    Raises:
        OSError: nobody answers there, or not with a JSON object; the message says which.
    """
    try:
        with _OPENER.open(url, timeout=_SECONDS) as answer:
            found = json.loads(_read(answer, url))
    except urllib.error.HTTPError as error:
        raise OSError(f"{url} answers {error.code}") from error
    except (urllib.error.URLError, TimeoutError, HTTPException) as error:
        raise OSError(f"{url} does not answer: {getattr(error, 'reason', error)}") from error
    except (ValueError, RecursionError) as error:
        raise OSError(f"{url} does not serve JSON") from error
    if not isinstance(found, dict):
        raise OSError(f"{url} does not serve a JSON object")
    return found
