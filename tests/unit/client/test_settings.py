"""Client settings: Kafka's names, checked."""

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.model.error import ConfigError


def test_the_default_is_a_broker_on_this_machine() -> None:
    settings = ClientSettings.of({})
    assert settings.bootstrap == [Address("127.0.0.1", 9092)]
    assert (settings.tls, settings.sasl) == (None, None)


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean bootstrap\.servers\?"):
        ClientSettings.of({"bootstrap.server": "x"})


def test_sasl_needs_a_name_and_a_password() -> None:
    with pytest.raises(ConfigError, match=r"set sasl\.username and sasl\.password"):
        ClientSettings.of({"security.protocol": "SASL_PLAINTEXT", "sasl.username": "me"})


def test_a_protocol_says_what_is_used() -> None:
    settings = ClientSettings.of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": "secret",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert settings.sasl is not None
    assert settings.sasl.mechanism == "SCRAM-SHA-512"
    assert settings.tls is not None
    assert not settings.tls.check_host


def test_credentials_without_a_protocol_for_them_are_not_used() -> None:
    assert ClientSettings.of({"sasl.username": "me", "sasl.password": "x"}).sasl is None
