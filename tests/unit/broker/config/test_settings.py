"""A broker's configuration: what is written, what is missing, and what cannot be."""

from pathlib import Path

import pytest

from headrace.broker.config.internal_topic import CONSUMER_OFFSETS, TRANSACTION_STATE
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


def test_another_authorizer_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name"):
        BrokerSettings({"authorizer.class.name": "com.example.Mine"})


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


def test_a_subscriber_is_called_after_each_change_until_it_unsubscribes() -> None:
    settings = BrokerSettings({})
    seen: list[int] = []

    def subscriber() -> None:
        seen.append(settings.num_partitions)

    settings.subscribe(subscriber)
    settings.set_dynamic({"num.partitions": "3"})
    settings.unsubscribe(subscriber)
    settings.set_dynamic({"num.partitions": "4"})

    assert seen == [3]


def test_the_older_names_of_a_key_count_where_the_newer_is_not_written() -> None:
    older = BrokerSettings({"log.dir": "/a,/b", "broker.id": "7"})
    both = BrokerSettings({"log.dir": "/a", "log.dirs": "/c", "broker.id": "7", "node.id": "8"})

    assert (older.log_dirs, older.node_id) == ((Path("/a"), Path("/b")), 7)
    assert (both.log_dirs, both.node_id) == ((Path("/c"),), 8)
    assert BrokerSettings({"broker.id": "-1"}).node_id == 1


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_coordinators_topics_have_the_configured_replicas_in_a_cluster(name: str) -> None:
    alone, member = BrokerSettings({}), BrokerSettings({"zookeeper.connect": "127.0.0.1:2181"})
    assert alone.internal_topic(name).replication_factor == 1
    assert member.internal_topic(name).replication_factor == 3


def test_the_transaction_log_has_its_own_minimum_of_replicas_in_sync() -> None:
    texts = {"zookeeper.connect": "127.0.0.1:2181"}
    key = "min.insync.replicas"
    assert BrokerSettings({}).internal_topic(TRANSACTION_STATE).configs[key] == "1"
    assert BrokerSettings(texts).internal_topic(TRANSACTION_STATE).configs[key] == "2"
    texts["transaction.state.log.min.isr"] = "3"
    assert BrokerSettings(texts).internal_topic(TRANSACTION_STATE).configs[key] == "3"
    assert key not in BrokerSettings(texts).internal_topic(CONSUMER_OFFSETS).configs


def test_what_another_version_has_stored_does_not_keep_this_one_from_working() -> None:
    settings = BrokerSettings({"num.partitions": "2"})
    stored = {"no.such.key": "1", "num.partitions": "many", "log.retention.ms": "5"}

    settings.set_dynamic(stored)
    config_of = settings.log_configs(lambda _: {"no.such.key": "1", "segment.bytes": "2048"})

    assert (settings.num_partitions, settings["log.retention.ms"]) == (2, 5)
    assert config_of("clicks").segment_bytes == 2048


def test_topics_with_the_same_values_share_their_configuration_until_it_changes() -> None:
    settings = BrokerSettings({})
    own = {"a": {}, "b": {}, "c": {"retention.ms": "5"}}
    config_of = settings.log_configs(lambda topic: own[topic])
    before = config_of("a")

    assert config_of("b") is before
    assert config_of("c") is not before
    settings.set_dynamic({"log.retention.ms": "7"})

    assert [config_of(topic).retention_ms for topic in own] == [7, 7, 5]
