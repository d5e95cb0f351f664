"""A bound on the bytes of requests in memory, for servers with threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class ByteBudget:
    """The bytes of requests that may be in memory at one time."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._free = most_bytes
        self._changed = Condition()

    @contextmanager
    def taken(self, size: int, seconds: float = 0.0) -> Iterator[bool]:
        """Hold so many bytes until the block ends; False, and nothing held, if there is no room
        within these seconds."""
        with self._changed:
            fits = self._changed.wait_for(lambda: size <= self._free, seconds)
            self._free -= size if fits else 0
        try:
            yield fits
        finally:
            with self._changed:
                self._free += size if fits else 0
                self._changed.notify_all()
