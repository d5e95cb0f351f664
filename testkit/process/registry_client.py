"""Calls a schema registry as curl does."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

JSON_TYPE = "application/vnd.schemaregistry.v1+json"
_SECONDS = 60.0


def call(
    url: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Send a request; return the status and what the body says."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    request = Request(
        url + path,
        data=data,
        method=method,
        headers={"Content-Type": JSON_TYPE, **(headers or {})},
    )
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            status, text = answer.status, answer.read()
    except HTTPError as error:
        with error:
            status, text = error.code, error.read()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text.decode()
