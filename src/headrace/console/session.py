"""Who is logged in. Sessions live in memory: a restart of the console logs everybody out."""

import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from headrace.console.user import User
from headrace.model.clock import Clock

COOKIE: Final = "headrace-session"
LIFE_MS: Final = 12 * 60 * 60 * 1000
MOST_SESSIONS: Final = 1_000
# So many wrong passwords a minute for one name, and for everybody together.
MOST_FAILURES: Final = 5
MOST_FAILURES_IN_ALL: Final = 50
_FAILURE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class _Session:
    user: User
    ends_ms: int


class Sessions:
    """Tokens and whose they are. The oldest goes when there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._failures: deque[tuple[int, str]] = deque(maxlen=MOST_FAILURES_IN_ALL)

    def open(self, user: User) -> str:
        """A new token for somebody who has shown a password."""
        while len(self._sessions) >= MOST_SESSIONS:
            self._sessions.popitem(last=False)
        token = secrets.token_urlsafe(32)
        self._sessions[token] = _Session(user, self._clock.monotonic_ms() + LIFE_MS)
        return token

    def user(self, token: str) -> User | None:
        found = self._sessions.get(token)
        if found is None:
            return None
        if self._clock.monotonic_ms() >= found.ends_ms:
            del self._sessions[token]
            return None
        return found.user

    def close(self, token: str) -> None:
        self._sessions.pop(token, None)

    def may_try(self, name: str) -> bool:
        """Whether another password may be tried now."""
        since = self._clock.monotonic_ms() - _FAILURE_MS
        while self._failures and self._failures[0][0] < since:
            self._failures.popleft()
        tried = sum(each == name for _, each in self._failures)
        return tried < MOST_FAILURES and len(self._failures) < MOST_FAILURES_IN_ALL

    def note_failure(self, name: str) -> None:
        self._failures.append((self._clock.monotonic_ms(), name))
