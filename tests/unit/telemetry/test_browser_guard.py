"""Which requests come from the page of another site."""

import pytest

from headrace.telemetry.browser_guard import (
    from_other_site,
    is_loopback_address,
    is_loopback_name,
)


@pytest.mark.parametrize("host", ["127.0.0.1:3774", "localhost", "LOCALHOST:1", "[::1]:3774"])
def test_names_of_this_machine(host: str) -> None:
    assert is_loopback_name(host)


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example:3774", "10.0.0.1"])
def test_other_names(host: str) -> None:
    assert not is_loopback_name(host)


def test_addresses_that_other_machines_reach() -> None:
    assert is_loopback_address("127.0.0.1")
    assert is_loopback_address("::1")
    assert not is_loopback_address("0.0.0.0")
    assert not is_loopback_address("gateway.example")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "127.0.0.1:3774", "Origin": "https://evil.example"},
        {"Host": "127.0.0.1:3774", "Origin": "http://127.0.0.1:8000"},
        {"Host": "127.0.0.1:3774", "Origin": "null"},
        {"Host": "127.0.0.1:3774", "Sec-Fetch-Site": "cross-site"},
        {"Host": "127.0.0.1:3774", "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site(headers: dict[str, str]) -> None:
    assert from_other_site(headers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "127.0.0.1:3774"},
        {"Host": "127.0.0.1:3774", "Sec-Fetch-Site": "none"},
        {"Host": "calls.example", "Origin": "https://Calls.example"},
    ],
)
def test_a_program_or_a_page_of_its_own(headers: dict[str, str]) -> None:
    assert not from_other_site(headers)  # type: ignore[arg-type]
