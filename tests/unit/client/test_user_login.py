"""This user's login, for clients that name their brokers themselves."""

from pathlib import Path

import pytest

from headrace.client.user_login import login_for
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE

LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.username": "anna",
    "sasl.password": "MARKED",
}


@pytest.fixture
def client_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "client.properties"
    lines = {"bootstrap.servers": "a:9093,b:9093", **LOGIN, "request.timeout.ms": "5000"}
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(path))
    return path


@pytest.mark.usefixtures("client_file")
@pytest.mark.parametrize("brokers", ["a:9093", "c:9093, b:9093"])
def test_a_client_of_the_files_brokers_has_its_login(brokers: str) -> None:
    found = login_for(brokers, secured=False, whose="sink k1")

    assert found == {**LOGIN, "request.timeout.ms": "5000"}


@pytest.mark.usefixtures("client_file")
def test_a_client_with_a_login_of_its_own_gets_none_of_the_files() -> None:
    assert login_for("a:9093", secured=True, whose="sink k1") == {"request.timeout.ms": "5000"}


@pytest.mark.usefixtures("client_file")
@pytest.mark.parametrize("brokers", ["c:9093", "a:9092", "a"])
def test_brokers_that_the_file_does_not_name_are_not_sent_its_password(brokers: str) -> None:
    assert login_for(brokers, secured=False, whose="sink k1") == {}


def test_a_file_without_brokers_is_for_all(client_file: Path) -> None:
    client_file.write_text("client.id=mine\n")

    assert login_for("c:9092", secured=False, whose="sink k1") == {"client.id": "mine"}


def test_without_a_file_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CLIENT_CONFIG_VARIABLE, raising=False)

    assert login_for("c:9092", secured=False, whose="sink k1") == {}
