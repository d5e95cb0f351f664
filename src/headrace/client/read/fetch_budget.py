"""Bounds how many bytes a reader holds: requested, or received and not yet decoded."""

import threading
from collections.abc import Callable


class FetchBudget:
    """Counts bytes for the thread that fetches and the one that decodes; both may call it.

    A request reserves the most bytes it asks for before it is sent; its response shows how many
    it really holds. A broker sends a first batch that is larger than the request allows all the
    same (KIP-74), so `held_bytes` may exceed the limit by one such batch per broker.

    Args:
        wake: called when bytes were released after `reserve` returned False.
    """

    def __init__(self, limit_bytes: int, wake: Callable[[], None]) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._wake = wake
        self._refused = False
        self._lock = threading.Lock()

    def reserve(self, size: int) -> bool:
        """Reserve bytes. Return False when they exceed the limit, unless nothing is held."""
        with self._lock:
            if self.held_bytes and self.held_bytes + size > self.limit_bytes:
                self._refused = True
                return False
            self.held_bytes += size
            return True

    def replace_reservation(self, reserved: int, received: int) -> None:
        """Replace what a request reserved by what its response holds."""
        self.release(reserved - received)

    def release(self, size: int) -> None:
        """Release bytes that are decoded, or whose response will not come."""
        with self._lock:
            self.held_bytes -= size
            wake = self._refused and size > 0
            if wake:
                self._refused = False
        if wake:
            self._wake()
