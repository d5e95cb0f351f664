"""Users and their passwords."""

from pathlib import Path

import pytest

from headrace.console.access.user import Role, User, Users, add_user, hash_password, verify
from headrace.model.error import ConfigError

ADA = User("ada", Role.ADMIN)


def test_a_password_is_kept_as_a_hash_that_differs_each_time() -> None:
    first, second = hash_password("correct horse"), hash_password("correct horse")
    assert first != second
    assert "correct" not in first
    assert verify("correct horse", first)
    assert not verify("wrong horse", first)


def test_the_right_password_authenticates_a_user() -> None:
    users = Users(f"# people\n\nada:admin:{hash_password('long enough')}\n")
    assert users.authenticate("ada", "long enough") == ADA
    assert users.authenticate("ada", "long enough ") is None
    assert users.authenticate("bob", "long enough") is None


@pytest.mark.parametrize(
    "text",
    [
        "ada:admin:plain-text",
        "ada:king:scrypt$65536$8$1$AAAA$AAAA",
        "a b:admin:scrypt$65536$8$1$AAAA$AAAA",
        "ada:admin:scrypt$999999999$8$1$AAAA$AAAA",
        "ada:admin:scrypt$x",
        "",
    ],
)
def test_a_wrong_line_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Users(text)


def test_adding_a_user_replaces_the_one_there(tmp_path: Path) -> None:
    path = tmp_path / "users.txt"
    add_user(path, "ada", Role.VIEWER, "long enough")
    add_user(path, "bob", Role.EDITOR, "long enough")
    add_user(path, "ada", Role.ADMIN, "even longer")
    users = Users.read(path)
    assert users.authenticate("ada", "even longer") == ADA
    assert users.authenticate("ada", "long enough") is None
    assert len(path.read_text().splitlines()) == 2
    assert path.stat().st_mode & 0o077 == 0


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        add_user(tmp_path / "users.txt", "ada", Role.VIEWER, "short")
