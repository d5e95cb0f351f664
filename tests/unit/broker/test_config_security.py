"""The security and dynamic keys of a broker's configuration, and what is made of them."""

from pathlib import Path

import pytest

from headrace.broker.auth.authentication import Authentication
from headrace.broker.auth.resource import Operation, ResourceType
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.guard import configured_authorizer
from headrace.model.clock import ManualClock
from headrace.model.error import ConfigError

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_without_an_authorizer_requests_are_not_checked() -> None:
    assert configured_authorizer(BrokerSettings({})) is None


def test_super_users_come_from_the_configuration() -> None:
    settings = BrokerSettings(
        {"authorizer.class.name": AUTHORIZER, "super.users": "User:root;User:ops"}
    )

    made = configured_authorizer(settings)

    assert made is not None
    for user, expected in (("User:ops", True), ("User:anna", False)):
        allowed = made.allows(user, "h", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
        assert allowed is expected


def test_a_super_user_needs_its_type() -> None:
    settings = BrokerSettings({"authorizer.class.name": AUTHORIZER, "super.users": "root"})

    with pytest.raises(ConfigError, match="User:root"):
        configured_authorizer(settings)


def test_another_authorizer_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name"):
        BrokerSettings({"authorizer.class.name": "com.example.Mine"})


def test_plain_needs_its_users() -> None:
    settings = BrokerSettings({"sasl.enabled.mechanisms": "PLAIN"})

    with pytest.raises(ConfigError, match=r"headrace\.sasl\.plain\.users\.file"):
        Authentication(settings, ManualClock())


def test_plain_takes_its_users_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("anna=secret\n")
    settings = BrokerSettings(
        {"sasl.enabled.mechanisms": "PLAIN", "headrace.sasl.plain.users.file": str(path)}
    )

    made = Authentication(settings, ManualClock())

    assert made.users is not None
    assert made.users.passwords == {"anna": "secret"}


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(ConfigError, match="SCRAM-SHA-512"):
        BrokerSettings({"sasl.enabled.mechanisms": "GSSAPI"})


def test_dynamic_values_lie_on_top_of_the_written_ones() -> None:
    settings = BrokerSettings({"num.partitions": "2", "log.retention.ms": "5"})

    settings.set_dynamic({"num.partitions": "3"})
    assert (settings["num.partitions"], settings["log.retention.ms"]) == (3, 5)

    settings.set_dynamic({})
    assert settings["num.partitions"] == 2


def test_a_topic_has_its_own_then_the_brokers_configuration() -> None:
    settings = BrokerSettings({"log.retention.ms": "5", "log.segment.bytes": "2000000"})
    config_of = settings.log_configs(lambda topic: {"retention.ms": "7"} if topic == "t" else {})

    assert (config_of("t").retention_ms, config_of("t").segment_bytes) == (7, 2_000_000)
    assert config_of("other").retention_ms == 5

    settings.set_dynamic({"log.retention.ms": "6"})
    assert config_of("other").retention_ms == 6


def test_a_default_that_contradicts_a_topic_does_not_keep_it_from_opening() -> None:
    settings = BrokerSettings({"log.cleaner.max.compaction.lag.ms": "10"})
    config_of = settings.log_configs(lambda topic: {"min.compaction.lag.ms": "50"})

    assert config_of("t").min_compaction_lag_ms == 50
