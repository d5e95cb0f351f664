"""`headrace kinesis key add` and `encryption-key add` write files that gateways read."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.kinesis.kinesis import app
from headrace.gateway.kinesis.access.access_keys import read_access_keys
from headrace.gateway.kinesis.encryption.key_file import read_master_keys
from headrace.model.error import ConfigError


def run(*arguments: str) -> str:
    ended = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_a_key_of_another_account(tmp_path: Path) -> None:
    path, bob = tmp_path / "keys.txt", "arn:aws:iam::111122223333:user/bob"
    shown = run("key", "add", "AKIDBOB", "--keys", str(path), "--principal", bob)

    key = read_access_keys(path)["AKIDBOB"]
    assert key.principal == bob
    assert f"AWS_SECRET_ACCESS_KEY={key.secret}" in shown


def test_a_master_key_is_written_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "master.txt"
    shown = run("encryption-key", "add", "alias/clicks", "--encryption-keys", str(path))

    assert set(read_master_keys(path)) == {"alias/clicks"}
    assert path.read_text().split()[1] not in shown
    with pytest.raises(ConfigError, match="already"):
        run("encryption-key", "add", "alias/clicks", "--encryption-keys", str(path))
