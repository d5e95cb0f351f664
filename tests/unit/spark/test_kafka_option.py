"""Kafka's client configuration, as Java's clients and librdkafka spell it."""

import pytest

from headrace.model.error import ConfigError
from headrace.spark.kafka_option import client_texts

SERVERS = {"bootstrap.servers": "127.0.0.1:9092"}


def test_what_the_client_has_too_is_handed_on() -> None:
    given = {**SERVERS, "fetch.max.bytes": "1000", "client.id": "me"}

    assert client_texts(given) == given


def test_what_only_tunes_javas_consumer_is_ignored() -> None:
    assert client_texts({**SERVERS, "max.poll.records": "5", "session.timeout.ms": "1"}) == SERVERS


def test_what_the_caller_reads_is_left_to_it() -> None:
    assert client_texts({**SERVERS, "group.id": "mine"}, ["group.id"]) == SERVERS


def test_a_name_kafka_does_not_have_is_reported_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.security\.protocl .*kafka\.security\.protocol"):
        client_texts({**SERVERS, "security.protocl": "SSL"})


def test_a_wrong_value_is_reported_before_anything_connects() -> None:
    with pytest.raises(ConfigError, match=r"fetch\.max\.bytes cannot be 'much'"):
        client_texts({**SERVERS, "fetch.max.bytes": "much"})


def test_javas_login_line_is_understood() -> None:
    line = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="sec\\"ret";'
    )

    found = client_texts(
        {
            **SERVERS,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": line,
        }
    )

    assert found["sasl.username"] == "alice"
    assert found["sasl.password"] == 'sec"ret'


def test_a_login_line_without_a_login_is_reported_without_showing_it() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.jaas\.config has no username") as raised:
        client_texts({**SERVERS, "sasl.jaas.config": "Module required password=secret;"})
    assert "secret" not in str(raised.value)


def test_pem_stores_of_java_are_files_of_ours() -> None:
    found = client_texts(
        {
            **SERVERS,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca",
            "ssl.keystore.location": "/me.pem",
            "ssl.keystore.password": "pw",
        }
    )

    assert found["ssl.ca.location"] == "/ca"
    assert found["ssl.certificate.location"] == found["ssl.key.location"] == "/me.pem"
    assert found["ssl.key.password"] == "pw"


def test_java_key_stores_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Java key store \(JKS\).*kafka\.ssl\.ca\.location"):
        client_texts({**SERVERS, "ssl.truststore.location": "/trust.jks"})
