"""Whose calls the gateway refuses before it asks a broker."""

import http.client
from collections.abc import Iterator, Mapping

import pytest

from headrace.flow.drpc.gateway import Gateway


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway("127.0.0.1", 0, brokers="127.0.0.1:1")
    made.start()
    yield made
    made.stop()


def status(gateway: Gateway, method: str, headers: Mapping[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    try:
        # No path of a function: what is not refused gets 404.
        connection.request(
            method, "/other", body=b"" if method == "POST" else None, headers=headers
        )
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_of_another_site_is_refused(gateway: Gateway, method: str) -> None:
    assert status(gateway, method, {"Origin": "https://evil.example"}) == 403
    assert status(gateway, method, {"Sec-Fetch-Site": "cross-site"}) == 403


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_name_that_was_pointed_at_loopback_is_refused(gateway: Gateway, method: str) -> None:
    assert status(gateway, method, {"Host": "evil.example"}) == 421


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_program_is_let_in(gateway: Gateway, method: str) -> None:
    assert status(gateway, method, {}) == 404
    assert status(gateway, method, {"Host": f"localhost:{gateway.port}"}) == 404
