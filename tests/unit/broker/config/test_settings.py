"""A broker's configuration: what is written, what is missing, and what cannot be."""

import pytest

from headrace.broker.config.settings import BrokerSettings
from headrace.model.error import ConfigError


def test_nothing_written_gives_a_broker_on_loopback_with_kafkas_defaults() -> None:
    settings = BrokerSettings({})
    assert [str(each) for each in settings.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert settings.num_partitions == 1
    assert settings["connections.max.idle.ms"] == 600_000


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        BrokerSettings({"num.partition": "3"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num.partitions", "three"),
        ("num.partitions", "0"),
        ("socket.request.max.bytes", "-1"),
        ("listeners", ""),
        ("listeners", "127.0.0.1"),
        ("listeners", "KERBEROS://127.0.0.1:9092"),
        ("log.dirs", ""),
        ("headrace.admin.listener", "nowhere"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_one_sentence(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerSettings({key: value})
    assert "\n" not in str(refused.value)


def test_several_listeners_have_their_own_names_and_protocols() -> None:
    settings = BrokerSettings(
        {
            "listeners": "INSIDE://127.0.0.1:9092,PLAINTEXT://[::1]:9093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT",
            "advertised.listeners": "INSIDE://broker.internal:9092",
        }
    )
    assert [each.address for each in settings.listeners] == ["127.0.0.1:9092", "[::1]:9093"]
    assert settings.advertised_listeners["INSIDE"].address == "broker.internal:9092"
    assert settings.advertised_listeners["PLAINTEXT"].address == "[::1]:9093"


def test_the_admin_port_can_be_turned_off() -> None:
    assert BrokerSettings({"headrace.admin.listener": "none"}).admin_address is None


def test_a_topics_own_configuration_goes_before_the_brokers() -> None:
    settings = BrokerSettings({"log.retention.ms": "1000", "log.segment.bytes": "2097152"})
    config_of = settings.log_configs(lambda topic: {"retention.ms": "5"})
    assert config_of("clicks").retention_ms == 5
    assert config_of("clicks").segment_bytes == 2097152
