"""The client configuration of a user."""

from pathlib import Path

import pytest

from headrace.config.client_file import CLIENT_CONFIG_VARIABLE, configured_client
from headrace.model.error import ConfigError


def test_a_password_comes_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=anna\nsasl.password=${SECRET}\n")
    environment = {CLIENT_CONFIG_VARIABLE: str(file), "SECRET": "a${b}c"}

    assert configured_client(environment) == {"sasl.username": "anna", "sasl.password": "a${b}c"}


def test_a_variable_that_is_not_set_is_no_password(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.password=${SECRET}\n")

    with pytest.raises(ConfigError, match=r"sasl\.password names the environment variable SECRET"):
        configured_client({CLIENT_CONFIG_VARIABLE: str(file)})
