"""Users, their passwords and their sessions."""

from pathlib import Path

import pytest

from headrace.console.session import LIFE_MS, MOST_FAILURES, MOST_SESSIONS, Sessions
from headrace.console.user import Role, User, Users, add_user, hash_password, verify
from headrace.model.clock import ManualClock
from headrace.model.error import ConfigError

ADA = User("ada", Role.ADMIN)


def test_a_password_is_kept_as_a_hash_that_differs_each_time() -> None:
    first, second = hash_password("correct horse"), hash_password("correct horse")
    assert first != second
    assert "correct" not in first
    assert verify("correct horse", first)
    assert not verify("wrong horse", first)


def test_the_file_tells_who_somebody_is() -> None:
    users = Users(f"# people\n\nada:admin:{hash_password('long enough')}\n")
    assert users.check("ada", "long enough") == ADA
    assert users.check("ada", "long enough ") is None
    assert users.check("bob", "long enough") is None


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
def test_a_wrong_line_is_told(text: str) -> None:
    with pytest.raises(ConfigError):
        Users(text)


def test_adding_a_user_replaces_the_one_there(tmp_path: Path) -> None:
    path = tmp_path / "users.txt"
    add_user(path, "ada", Role.VIEWER, "long enough")
    add_user(path, "bob", Role.EDITOR, "long enough")
    add_user(path, "ada", Role.ADMIN, "even longer")
    users = Users.read(path)
    assert users.check("ada", "even longer") == ADA
    assert users.check("ada", "long enough") is None
    assert len(path.read_text().splitlines()) == 2
    assert path.stat().st_mode & 0o077 == 0


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        add_user(tmp_path / "users.txt", "ada", Role.VIEWER, "short")


def test_a_session_ends_after_its_life() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    token = sessions.open(ADA)
    clock.advance(LIFE_MS - 1)
    assert sessions.user(token) == ADA
    clock.advance(1)
    assert sessions.user(token) is None


def test_a_closed_session_is_nobodys() -> None:
    sessions = Sessions(ManualClock())
    token = sessions.open(ADA)
    sessions.close(token)
    assert sessions.user(token) is None
    assert sessions.user("") is None


def test_the_oldest_session_makes_room() -> None:
    sessions = Sessions(ManualClock())
    tokens = [sessions.open(ADA) for _ in range(MOST_SESSIONS + 1)]
    assert sessions.user(tokens[0]) is None
    assert sessions.user(tokens[-1]) == ADA


def test_wrong_passwords_are_counted_for_a_minute() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    for _ in range(MOST_FAILURES):
        assert sessions.may_try("ada")
        sessions.note_failure("ada")
    assert not sessions.may_try("ada")
    assert sessions.may_try("bob")
    clock.advance(61_000)
    assert sessions.may_try("ada")
