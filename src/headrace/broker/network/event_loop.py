"""The event loop of a broker's process: it serves connections where it asks for ready sockets.

asyncio asks a selector which sockets are ready, makes a handle for each, and runs the handles. The
selector here serves the sockets of connections itself, in the order in which the kernel reports
them, and returns the rest (timers' wake-ups, listening sockets, signals) to asyncio. So a request
costs one look at the kernel and no handle.

Rule 1: what is served here must not wait, and must not raise: asyncio would end the loop.
Rule 2: what is served may use the loop as from a handle. Calls that it schedules run in this turn.
Rule 3: the loop is asyncio's own in everything else. A broker also runs in any other loop, as in a
test's; its `Poller` then has an epoll of its own, and a turn costs a few microseconds more.
"""

import asyncio
import os
import select
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, EpollSelector, SelectorKey
from typing import TypeAlias

Ready: TypeAlias = "list[tuple[int, int]]"
"""Descriptors and their events, as an epoll reports them."""

Serve: TypeAlias = Callable[[Ready], Ready]
"""Serves the descriptors that it knows, and returns the others."""

# Descriptors that one look at the kernel reports at most.
EVENTS_PER_LOOK = 256


class ServingSelector(EpollSelector):
    """asyncio's selector on Linux, in whose epoll others may watch descriptors as well.

    Attributes:
        epoll: the same epoll as asyncio's, by a descriptor of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epoll = select.epoll.fromfd(os.dup(self.fileno()))
        self._serve: Serve | None = None

    def serve_with(self, serve: Serve | None) -> None:
        """Call `serve` with what is ready, before asyncio learns of it; None ends that."""
        self._serve = serve

    @property
    def serves(self) -> bool:
        return self._serve is not None

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        serve = self._serve
        if serve is None:
            return super().select(timeout)
        ready = self.epoll.poll(timeout, EVENTS_PER_LOOK)
        others = serve(ready) if ready else ready
        return self._for_asyncio(others) if others else []

    def _for_asyncio(self, ready: Ready) -> list[tuple[SelectorKey, int]]:
        found = []
        keys = self.get_map()
        for fd, events in ready:
            key = keys.get(fd)
            if key is not None:  # or it was closed meanwhile
                # A descriptor that failed or was hung up is ready for both.
                wanted = EVENT_WRITE if events & ~select.EPOLLIN else 0
                wanted |= EVENT_READ if events & ~select.EPOLLOUT else 0
                found.append((key, wanted & key.events))
        return found

    def close(self) -> None:
        self.epoll.close()
        super().close()


class BrokerEventLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with a `ServingSelector`: `asyncio.Runner(loop_factory=BrokerEventLoop)`."""

    def __init__(self) -> None:
        self.selector = ServingSelector()
        super().__init__(self.selector)
