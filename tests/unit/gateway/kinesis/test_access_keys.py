"""The file of access keys."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.gateway.kinesis.access.access_keys import add_access_key, read_access_keys
from headrace.model.error import ConfigError


def write(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


def test_an_added_key_is_read_and_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"

    first = add_access_key(path, "AKIDONE")
    second = add_access_key(path, "AKIDTWO")
    again = add_access_key(path, "AKIDONE")

    assert read_access_keys(path) == {"AKIDONE": again, "AKIDTWO": second}
    assert len({first, second, again}) == 3
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["keys"]


@pytest.mark.parametrize("line", ["AKID", "AKID short", "a b c d", "AK/ID secret-secret"])
def test_a_wrong_line_is_named_without_its_secret(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys"
    write(path, f"# comment\n\n{line}\n")

    with pytest.raises(ConfigError, match="line 3") as caught:
        read_access_keys(path)
    assert "secret-secret" not in str(caught.value)


def test_a_wrong_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no access key id"):
        add_access_key(tmp_path / "keys", "two words")


@pytest.mark.parametrize("text", ["", "\n", "# none yet\n"])
def test_a_file_without_a_key_does_not_open_the_door(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    write(path, text)

    with pytest.raises(ConfigError, match="no access key"):
        read_access_keys(path)


def test_a_key_is_added_to_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.touch()

    secret = add_access_key(path, "AKIDONE")

    assert read_access_keys(path) == {"AKIDONE": secret}


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o666])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys"
    add_access_key(path, "AKIDONE")
    path.chmod(mode)

    with pytest.raises(ConfigError, match="chmod 600"):
        read_access_keys(path)


def test_no_key_is_lost_when_several_are_added_at_once(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    names = [f"AKID{at}" for at in range(40)]

    with ThreadPoolExecutor(8) as workers:
        secrets = list(workers.map(lambda name: add_access_key(path, name), names))

    assert read_access_keys(path) == dict(zip(names, secrets, strict=True))
