"""How fast a client must read a response. Pure.

A response holds memory until its client has it. A client must read at `LEAST_BYTES_PER_SECOND`; it
may fall behind by `SLACK_SECONDS` in all, and makes up for that by reading faster. So a pause of
some seconds is allowed, and a trickle is not.
"""

from typing import Final

LEAST_BYTES_PER_SECOND: Final = 64 << 10
SLACK_SECONDS: Final = 10.0


class ReadingPace:
    """The pace of one client during one response.

    Example:
        deadline = now + pace.wait(waiting_bytes, now)   # when bytes begin to wait for the client
        pace.go_on(later)                                # when it has read them
    """

    def __init__(self) -> None:
        self._slack = SLACK_SECONDS
        self._due: float | None = None

    def wait(self, waiting_bytes: int, now: float) -> float:
        """Note that bytes wait for the client; return within how many seconds it must read them."""
        seconds = waiting_bytes / LEAST_BYTES_PER_SECOND
        self._due = now + seconds
        return self._slack + seconds

    def go_on(self, now: float) -> None:
        """Note that it has read them."""
        if self._due is not None:
            self._slack = min(SLACK_SECONDS, self._slack + self._due - now)
            self._due = None
