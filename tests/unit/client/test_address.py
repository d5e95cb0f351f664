"""Addresses of brokers, as users write them."""

import pytest

from headrace.client.address import Address, parse_addresses
from headrace.model.error import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one:9093", [Address("one", 9093)]),
        ("one, two:1 ,", [Address("one", 9092), Address("two", 1)]),
        ("[::1]:9094", [Address("::1", 9094)]),
        ("[::1]", [Address("::1", 9092)]),
        ("fe80::1", [Address("fe80::1", 9092)]),
    ],
)
def test_addresses_are_read(text: str, expected: list[Address]) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize("text", ["one:port", ":9092", "one:0", "one:65536", "[::1", "[::1]x"])
def test_a_wrong_address_is_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="host:port") as caught:
        parse_addresses(f"fine:1,{text}")
    assert repr(text) in str(caught.value)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is empty"):
        parse_addresses(" , ")


def test_an_address_prints_as_it_is_written() -> None:
    assert [str(each) for each in parse_addresses("[::1]:1,a:2")] == ["[::1]:1", "a:2"]
