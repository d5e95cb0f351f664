"""Where a command's client settings come from, and which wins."""

from pathlib import Path

import pytest

from headrace.cli.terminal.option import (
    BROKERS_VARIABLE,
    bootstrap_servers,
    client_settings,
    kafka_pairs,
)
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.model.error import ConfigError


@pytest.fixture(autouse=True)
def client_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client.properties as Kafka's own tools take it."""
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=file:9093\n"
        "security.protocol=SASL_SSL\n"
        "sasl.jaas.config=x.PlainLoginModule required "
        'username="anna" password="${SECRET_OF_ANNA}";\n'
        "acks=all\n"
    )
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(path))
    monkeypatch.setenv("SECRET_OF_ANNA", "MARKED")
    monkeypatch.delenv(BROKERS_VARIABLE, raising=False)
    return path


def test_one_file_configures_every_command() -> None:
    assert client_settings(None, None) == {
        "bootstrap.servers": "file:9093",
        "security.protocol": "SASL_SSL",
        "sasl.username": "anna",
        "sasl.password": "MARKED",
    }
    assert bootstrap_servers(None) == "file:9093"


def test_what_is_nearer_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BROKERS_VARIABLE, "environment:9092")
    assert client_settings(None, None)["bootstrap.servers"] == "environment:9092"

    found = client_settings("flag:9092", ["sasl.username=bob", "bootstrap.servers=pair:9092"])
    assert (found["bootstrap.servers"], found["sasl.username"]) == ("flag:9092", "bob")


def test_flows_and_queries_have_the_same_settings_under_sparks_names() -> None:
    found = kafka_pairs({"sasl.username": "bob", "kafka.client.id": "mine", "input": "lines"})

    assert found == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.username": "bob",
        "kafka.sasl.password": "MARKED",
        "kafka.client.id": "mine",
        "input": "lines",
    }


def test_a_file_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, "/no/such.properties")
    with pytest.raises(ConfigError, match=r"cannot read /no/such\.properties"):
        client_settings(None, None)


def test_a_security_key_that_cannot_be_honoured_is_an_error(client_file: Path) -> None:
    client_file.write_text("sasl.pasword=MARKED\n")
    with pytest.raises(ConfigError, match=r"did you mean sasl\.password") as raised:
        client_settings(None, None)
    assert "MARKED" not in str(raised.value)
