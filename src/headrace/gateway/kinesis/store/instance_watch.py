"""Which instances are alive: their lease records come.

An instance that works for others, such as the one that lands a channel, has a lease record written
every second (`LeaseWriter.want`). One whose records do not come any more is replaced. That is only
a reason to begin: what must not be done twice is guarded by the state itself.
"""

import threading
from typing import Final

INSTANCE_BYTES: Final = 16
"""A lease record begins with the id of its instance."""

_MOST: Final = 1024


class InstanceWatch:
    """When each instance was last heard of, by this instance's clock. Threads: any."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._heard: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def hear(self, lease: bytes, now: float) -> None:
        """Note a lease record."""
        with self._lock:
            instance = lease[:INSTANCE_BYTES]
            self._heard.pop(instance, None)
            self._heard[instance] = now  # the last one is the latest
            if len(self._heard) > _MOST:
                del self._heard[next(iter(self._heard))]

    def silence(self, instance: str, now: float) -> float:
        """Return for how many seconds an instance was not heard of, or since we listen."""
        with self._lock:
            return now - self._heard.get(_bytes(instance), self._began)


def _bytes(instance: str) -> bytes:
    try:
        return bytes.fromhex(instance)
    except ValueError:
        return b""
