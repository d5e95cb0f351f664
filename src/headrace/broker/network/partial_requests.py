"""Requests that have begun to arrive and are not whole: how much memory they hold together.

A frame's buffer grows with the bytes received, so one peer can hold as much as it has sent, up to
the request limit; many peers together could hold everything there is. Past `limit_bytes` the
connection whose request began first is dropped: an honest client sends its request in one go, so
the oldest is the one that stalls. Requests below `COUNTED_BYTES` are bounded by the number of
connections.
"""

from typing import Protocol

COUNTED_BYTES = 1024 * 1024


class PartialRequestSender(Protocol):
    """The connection that a partial request arrives on."""

    def drop(self, reason: str) -> None:
        """Close, with a line in the log."""


class PartialRequests:
    """Counts the bytes of partial requests, and drops the oldest past the limit.

    Threads: event loop only.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._sizes: dict[PartialRequestSender, int] = {}  # the one that began first stands first
        self.total_bytes = 0

    def note(self, sender: PartialRequestSender, size_bytes: int) -> None:
        """Record how much of a sender's request is there; 0 when it is whole or never will be."""
        before = self._sizes.get(sender, 0)
        self.total_bytes += size_bytes - before
        if size_bytes:
            self._sizes[sender] = size_bytes
        elif before:
            del self._sizes[sender]
        while self.total_bytes > self._limit_bytes and self._sizes:
            oldest = next(iter(self._sizes))
            self.total_bytes -= self._sizes.pop(oldest)
            oldest.drop(
                f"unfinished requests hold more than queued.max.request.bytes "
                f"({self._limit_bytes}) together, and this one began first"
            )
