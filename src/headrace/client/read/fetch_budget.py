"""How many bytes a reader may hold: asked for, arrived, and not yet decoded."""

import threading
from collections.abc import Callable


class FetchBudget:
    """Shared by the thread that fetches and the one that decodes.

    A request is paid for before it is sent, by the most it asks for; its answer settles what it
    really holds. A first batch that is larger than what was asked for comes all the same (KIP-74),
    so `held_bytes` may pass the limit by one such batch for each broker.

    Args:
        wake: called when bytes came back after `take` was refused.
    """

    def __init__(self, limit_bytes: int, wake: Callable[[], None]) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._wake = wake
        self._refused = False
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """False when there is no room now. When nothing is held there always is."""
        with self._lock:
            if self.held_bytes and self.held_bytes + size > self.limit_bytes:
                self._refused = True
                return False
            self.held_bytes += size
            return True

    def settle(self, taken: int, real: int) -> None:
        """What was taken for a request turned out to be that much."""
        self.give_back(taken - real)

    def give_back(self, size: int) -> None:
        with self._lock:
            self.held_bytes -= size
            wake = self._refused and size > 0
            if wake:
                self._refused = False
        if wake:
            self._wake()
