"""How the Kafka clients of an agent log in."""

from pathlib import Path

import pytest

from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.ingest.channels.kafka import KafkaChannel
from headrace.ingest.kafka.client_config import client_settings, consumer_config
from headrace.ingest.settings import SettingError, Settings
from headrace.model.error import ConfigError


@pytest.fixture(autouse=True)
def client_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=a:9093\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        'sasl.jaas.config=x.ScramLoginModule required username="anna" password="MARKED";\n'
    )
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(path))
    return path


def channel(brokers: str = "a:9093", **texts: str) -> Settings:
    own = {f"kafka.{key.replace('_', '.')}": value for key, value in texts.items()}
    return Settings.from_texts(KafkaChannel.SETTINGS, {"kafka.bootstrap.servers": brokers, **own})


def test_a_component_without_a_login_has_that_of_the_user() -> None:
    made = client_settings(channel(), "producer")
    consumer = consumer_config(channel())

    assert made.tls is not None
    assert made.sasl is not None
    assert (made.sasl.mechanism, made.sasl.password) == ("SCRAM-SHA-512", "MARKED")
    login = {key: value for key, value in consumer.items() if key.startswith(("sasl", "security"))}
    assert login == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "anna",
        "sasl.password": "MARKED",
    }


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_a_login_of_one_of_its_clients_is_the_components_own(role: str) -> None:
    settings = channel(**{f"{role}_security.protocol": "PLAINTEXT"})

    assert client_settings(settings, "producer").sasl is None
    assert "sasl.password" not in consumer_config(settings)


def test_another_cluster_is_not_sent_the_password() -> None:
    settings = channel("b:9093")

    assert client_settings(settings, "producer").sasl is None
    assert "sasl.password" not in consumer_config(settings)


def test_an_address_that_is_wrong_is_a_mistake_of_its_key() -> None:
    with pytest.raises(SettingError) as raised:
        client_settings(channel("a:port"), "producer")
    assert raised.value.key == "kafka.bootstrap.servers"


def test_a_file_that_cannot_be_used_is_reported(client_file: Path) -> None:
    client_file.write_text("sasl.pasword=MARKED\n")
    with pytest.raises(ConfigError, match=r"did you mean sasl\.password"):
        client_settings(channel(), "producer")
