"""Settings of Java's clients, for ours and back."""

import pytest

from headrace.client.java_option import JAAS, from_java, to_java
from headrace.client.settings import ClientSettings
from headrace.model.error import ConfigError

LINE = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="an\\"na" password="pa\\\\ss";'
)


def test_a_client_properties_file_is_understood() -> None:
    found = from_java(
        {
            "security.protocol": "SASL_SSL",
            JAAS: LINE,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca",
            "ssl.keystore.location": "/own.pem",
            "ssl.keystore.password": "open",
        }
    )

    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.username": 'an"na',
        "sasl.password": "pa\\ss",
        "ssl.ca.location": "/ca",
        "ssl.certificate.location": "/own.pem",
        "ssl.key.location": "/own.pem",
        "ssl.key.password": "open",
    }


def test_errors_spell_the_key_as_it_was_written() -> None:
    with pytest.raises(ConfigError, match=r"systems\.k\.consumer\.sasl\.jaas\.config has no user"):
        from_java({JAAS: "Module required password=hidden;"}, "systems.k.consumer.")


def test_ours_become_javas_for_sparks_own_connector() -> None:
    ours = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'an"na',
        "sasl.password": "pa\\ss",
        "ssl.ca.location": "/ca",
        "ssl.endpoint.identification.algorithm": "none",
    }

    java = to_java(ours)

    assert java[JAAS] == LINE
    assert (java["ssl.truststore.location"], java["ssl.truststore.type"]) == ("/ca", "PEM")
    assert java["ssl.endpoint.identification.algorithm"] == ""
    assert "sasl.password" not in java


def test_a_certificate_and_its_key_must_be_one_file_for_java() -> None:
    with pytest.raises(ConfigError, match="one PEM file"):
        to_java({"ssl.certificate.location": "/a", "ssl.key.location": "/b"})


def test_no_password_in_the_text_of_settings() -> None:
    settings = ClientSettings.of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.username": "anna",
            "sasl.password": "MARKED",
            "ssl.key.password": "MARKED",
        }
    )

    assert "anna" in repr(settings)
    assert "MARKED" not in repr(settings)
