"""The sessions of logged-in users. They live in memory: a restart of the console ends them all."""

import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from headrace.console.access.user import User
from headrace.model.clock import Clock

COOKIE: Final = "headrace-session"
LIFE_MS: Final = 12 * 60 * 60 * 1000
MOST_SESSIONS: Final = 1_000
# The wrong passwords allowed per minute for one name, and for all names together.
MOST_FAILURES: Final = 5
MOST_FAILURES_IN_ALL: Final = 50
_FAILURE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class _Session:
    user: User
    ends_ms: int


class Sessions:
    """Maps tokens to users. The oldest session ends when there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._failures: deque[tuple[int, str]] = deque(maxlen=MOST_FAILURES_IN_ALL)

    def open(self, user: User) -> str:
        """Return a new token for a user whose password was right."""
        while len(self._sessions) >= MOST_SESSIONS:
            self._sessions.popitem(last=False)
        token = secrets.token_urlsafe(32)
        self._sessions[token] = _Session(user, self._clock.monotonic_ms() + LIFE_MS)
        return token

    def user(self, token: str) -> User | None:
        session = self._sessions.get(token)
        if session is None:
            return None
        if self._clock.monotonic_ms() >= session.ends_ms:
            del self._sessions[token]
            return None
        return session.user

    def close(self, token: str) -> None:
        self._sessions.pop(token, None)

    def may_try(self, name: str) -> bool:
        """Return whether another password may be tried for this name now."""
        since = self._clock.monotonic_ms() - _FAILURE_MS
        while self._failures and self._failures[0][0] < since:
            self._failures.popleft()
        tried = sum(each == name for _, each in self._failures)
        return tried < MOST_FAILURES and len(self._failures) < MOST_FAILURES_IN_ALL

    def note_failure(self, name: str) -> None:
        self._failures.append((self._clock.monotonic_ms(), name))
