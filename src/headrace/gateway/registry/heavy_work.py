"""Lets few threads parse and compare at once, and bounds what one request may cost.

Python runs one thread at a time. A thread that computes gives way every 5 ms, so with twenty of
them each of the others waits a tenth of a second for every turn. With two of them, requests that
only look something up are answered in milliseconds whatever schemas others send.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.gateway.registry.error import timed_out

_AT_ONCE: Final = 2
_WAIT_SECONDS: Final = 30.0


class WorkGate:
    """Room for a few threads that compute. Threads: any; one that is inside may enter again."""

    def __init__(self, at_once: int = _AT_ONCE, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._room = threading.BoundedSemaphore(at_once)
        self._wait_seconds = wait_seconds
        self._inside = threading.local()

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Wait for room, and hold it inside `with`.

        Raises:
            RegistryError: 50002, there was none in time.
        """
        if getattr(self._inside, "is_set", False):
            yield
            return
        if not self._room.acquire(timeout=self._wait_seconds):
            raise timed_out("Too many schemas are parsed and compared at the moment: try again")
        self._inside.is_set = True
        try:
            yield
        finally:
            self._inside.is_set = False
            self._room.release()


class WorkBudget:
    """What one request may still cost, in characters of parsed text. For one thread.

    What was done is remembered, so a request that is sent again goes on where this one stopped.
    """

    def __init__(self, characters: int) -> None:
        self._left = characters

    def spend(self, characters: int) -> None:
        """Take work off what is left, before it begins. It may be more than that.

        Raises:
            RegistryError: 50002, nothing is left.
        """
        if self._left <= 0:
            raise timed_out(
                "The earlier versions are more than one request can be compared with: try again, "
                "what was compared so far is remembered"
            )
        self._left -= characters

    def spend_last(self, characters: int) -> None:
        """Take work that was done off what is left."""
        self._left -= characters
