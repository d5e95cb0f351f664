"""Addresses as Kafka writes them."""

import pytest

from headrace.broker.config.listener import (
    Listener,
    advertised,
    check_distinct,
    parse_protocols,
    split_address,
)
from headrace.model.error import ConfigError


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("127.0.0.1:9092", Listener("PLAINTEXT", "127.0.0.1", 9092)),
        (":9092", Listener("PLAINTEXT", "", 9092)),
        ("PLAINTEXT://[::1]:0", Listener("PLAINTEXT", "::1", 0)),
        (
            "SASL_PLAINTEXT://kafka:9093",
            Listener("SASL_PLAINTEXT", "kafka", 9093, "SASL_PLAINTEXT"),
        ),
    ],
)
def test_a_listener_is_read(text: str, listener: Listener) -> None:
    assert Listener.parse(text) == listener


@pytest.mark.parametrize("address", ["[::1]:9092", "kafka:1", ":65535"])
def test_an_address_is_written_as_it_is_read(address: str) -> None:
    assert Listener.parse(address).address == address


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("localhost", "no port"),
        ("localhost:", "no port"),
        ("localhost:65536", "no port"),
        ("localhost:-1", "no port"),
        ("localhost:９０", "no port"),
        ("::1:9092", r"\[::1\]:9092"),
    ],
)
def test_an_address_that_cannot_be_read_says_how_to_write_it(address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        split_address(address)


def test_an_unknown_name_needs_a_protocol() -> None:
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        Listener.parse("INSIDE://:9092")


def test_a_mapped_name_has_its_protocol() -> None:
    protocols = parse_protocols(("INSIDE:PLAINTEXT", "OUTSIDE:SASL_PLAINTEXT"))
    assert not Listener.parse("INSIDE://:9092", protocols).authenticates
    assert Listener.parse("OUTSIDE://:9093", protocols).authenticates


@pytest.mark.parametrize("text", ["INSIDE", "INSIDE:", ":PLAINTEXT", "INSIDE:TLS"])
def test_a_map_of_protocols_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NAME:PROTOCOL"):
        parse_protocols((text,))


def test_a_name_may_stand_for_an_ipv4_and_an_ipv6_address() -> None:
    check_distinct((Listener.parse("127.0.0.1:9092"), Listener.parse("[::1]:9092")))


def test_a_name_may_not_stand_twice() -> None:
    with pytest.raises(ConfigError, match="PLAINTEXT twice"):
        check_distinct((Listener.parse("127.0.0.1:9092"), Listener.parse("127.0.0.1:9093")))


def test_clients_connect_to_the_listener_itself_unless_another_is_advertised() -> None:
    listeners = (Listener.parse("10.0.0.1:9092"), Listener.parse("SASL_PLAINTEXT://10.0.0.1:9093"))
    addresses = advertised(listeners, ("PLAINTEXT://kafka.example:19092",))
    assert addresses["PLAINTEXT"].address == "kafka.example:19092"
    assert addresses["SASL_PLAINTEXT"].address == "10.0.0.1:9093"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_an_address_nobody_can_connect_to_is_not_advertised(host: str) -> None:
    with pytest.raises(ConfigError, match="without a host"):
        advertised((Listener.parse(":9092"),), (f"PLAINTEXT://{host}:9092",))


def test_what_does_not_listen_is_not_advertised() -> None:
    with pytest.raises(ConfigError, match="SASL_PLAINTEXT, which is not among"):
        advertised((Listener.parse(":9092"),), ("SASL_PLAINTEXT://kafka:9092",))


def test_the_protocol_says_whether_a_listener_is_encrypted_and_asks_for_a_login() -> None:
    protocols = parse_protocols(("INSIDE:SSL", "OUTSIDE:SASL_SSL"))

    inside, outside = (Listener.parse(f"{name}://:9092", protocols) for name in protocols)

    assert (inside.encrypted, inside.authenticates) == (True, False)
    assert (outside.encrypted, outside.authenticates) == (True, True)
    assert not Listener.parse("SASL_PLAINTEXT://:9092").encrypted
