"""Calls connections when their sockets are ready, for less than the event loop takes for it.

The event loop makes a handle, runs a context and looks at two callbacks for each socket that is
ready; with small requests that is a tenth of a broker's time. So connections are watched by an
epoll of their own, which the event loop watches like a single socket (an epoll can be polled
itself). Everything else, as timers, tasks and listening sockets, stays with the event loop.

Rule 1: a watcher serves what it can without waiting and returns.
Rule 2: what one socket's event causes elsewhere (`call_after_event`) runs right after that event,
not in a later turn of the loop: a consumer that waits for records has them as soon as the producer
has its response.
Rule 3: an exception in serving one socket goes to the event loop's exception handler, and the
others are served.
"""

import asyncio
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

READ = select.EPOLLIN
WRITE = select.EPOLLOUT

# Sockets served before the event loop has its turn for everything else.
_EVENTS_PER_TURN = 256

Watcher = Callable[[int], None]
"""Called with READ, WRITE or both. A socket that failed or was hung up is ready for both."""


class Scheduler(Protocol):
    """Where a delayed response sets its timer, and asks to be sent right after an event."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def call_after_event(self) -> Callable[[Callable[[], object]], object]:
        """Calls what it is given when the socket event that is being served has been (rule 2)."""


class Poller:
    """The sockets of all connections of one event loop. It is their `Scheduler`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._epoll = select.epoll()
        self._watchers: dict[int, tuple[Watcher, int]] = {}
        self._after_event: deque[Callable[[], object]] = deque()
        self._serving = False
        loop.add_reader(self._epoll.fileno(), self._serve)

    def watch(self, fd: int, events: int, watcher: Watcher) -> None:
        """Call `watcher` whenever `fd` is ready for one of these events; with none, never."""
        known, before = self._watchers.get(fd, (None, 0))
        if events == before and known == watcher:
            return
        if events:
            self._watchers[fd] = watcher, events
        else:
            self._watchers.pop(fd, None)
        if events and before:
            self._epoll.modify(fd, events)
        elif events:
            self._epoll.register(fd, events)
        elif before:
            # Errors and hang-ups cannot be masked: an unwatched socket must not be registered.
            self._epoll.unregister(fd)

    def call_after_event(self, callback: Callable[[], object]) -> None:
        """Call `callback` after the event that is being served, or in the loop's next turn."""
        if self._serving:
            self._after_event.append(callback)
        else:
            self.loop.call_soon(callback)

    def close(self) -> None:
        if not self._epoll.closed:
            with suppress(ValueError, KeyError):
                self.loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._watchers.clear()

    def _serve(self) -> None:
        watchers, after_event = self._watchers, self._after_event
        self._serving = True
        try:
            for fd, ready in self._epoll.poll(0, _EVENTS_PER_TURN):
                watched = watchers.get(fd)
                if watched is None:
                    continue  # closed by one before it
                watcher, events = watched
                if ready != events:
                    if ready & ~(READ | WRITE):
                        ready = events
                    ready &= events
                try:
                    watcher(ready)
                except Exception as error:  # noqa: BLE001 - rule 3
                    self._report(error)
                while after_event:
                    self._run(after_event.popleft())
        finally:
            self._serving = False

    def _run(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - rule 3
            self._report(error)

    def _report(self, error: Exception) -> None:
        self.loop.call_exception_handler(
            {"message": "a connection could not be served", "exception": error}
        )
