"""Sessions and the limit on wrong passwords."""

from headrace.console.access.session import LIFE_MS, MOST_FAILURES, MOST_SESSIONS, Sessions
from headrace.console.access.user import Role, User
from headrace.model.clock import ManualClock

ADA = User("ada", Role.ADMIN)


def test_a_session_ends_after_its_life() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    token = sessions.open(ADA)
    clock.advance(LIFE_MS - 1)
    assert sessions.user(token) == ADA
    clock.advance(1)
    assert sessions.user(token) is None


def test_a_closed_session_has_no_user() -> None:
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
