"""What the proxy refuses before any handler sees it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.app import RestApp
from headrace.gateway.rest.exchange import Services
from headrace.gateway.rest.settings import RestSettings


def start(path: str, headers: dict[str, str], method: str = "POST") -> Any:
    """Send a request to a proxy that others can reach; return the start of its answer. A handler
    finds no services, which is status 500."""
    settings = RestSettings(client=ClientSettings.of({}), listen=Address("0.0.0.0", 0))
    app = RestApp(settings, "http://proxy:8082")
    app._services = cast(Services, SimpleNamespace())
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(cast(Any, scope), receive, send))
    return sent[0]


def status(path: str, headers: dict[str, str]) -> int:
    """Return the status of the answer to a request."""
    return int(start(path, headers)["status"])


PATHS = ["/v3/clusters/c/topics", "/v3/clusters/c/topics/t/records", "/topics/t", "/consumers/g"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_a_body_needs_a_type_that_no_page_may_send(path: str, kind: str | None) -> None:
    headers = {"host": "proxy:8082", "content-length": "2"}
    if kind is not None:
        headers["content-type"] = f"{kind}; charset=utf-8" if kind else ""

    assert status(path, headers) == 415


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers", [{"sec-fetch-site": "cross-site"}, {"origin": "http://elsewhere"}]
)
def test_pages_of_other_sites_are_refused_everywhere(path: str, headers: dict[str, str]) -> None:
    assert status(path, {"host": "proxy:8082", **headers}) == 403


@pytest.mark.parametrize("path", PATHS)
def test_a_typed_body_reaches_its_handler(path: str) -> None:
    headers = {"host": "proxy:8082", "content-length": "2", "content-type": "application/json"}

    assert status(path, headers) == 500


def test_a_method_that_is_not_allowed_is_answered_with_those_that_are() -> None:
    answer = start("/topics/t/stream", {"host": "proxy:8082"}, "HEAD")

    assert answer["status"] == 405
    assert (b"allow", b"GET") in answer["headers"]
