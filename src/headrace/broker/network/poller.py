"""Tells connections that their sockets are ready, for less than the event loop takes for it.

The event loop makes a handle, runs a context and looks at two callbacks for each socket that is
ready; with small requests that is a tenth of a broker's time. So connections are watched by an
epoll of their own, which the event loop watches like a single socket (an epoll can be polled
itself). Everything else, as timers, tasks and listening sockets, stays with the event loop.

Rule 1: whoever is told serves what it can without waiting and returns.
Rule 2: what one socket's event gives cause for somewhere else (`soon`) runs when that socket is
served, not in a later turn: a consumer that waits for records has them as soon as the producer has
its answer.
Rule 3: a mistake in serving one socket is told to the event loop's exception handler, and the
others are served.
"""

import asyncio
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress

READ = select.EPOLLIN
WRITE = select.EPOLLOUT

# Sockets served before the event loop has its turn for everything else.
_EVENTS_PER_TURN = 256

Watcher = Callable[[int], None]
"""Called with READ, WRITE or both. A socket that failed or was hung up is ready for both."""


class Poller:
    """The sockets of all connections of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._watchers: dict[int, tuple[Watcher, int]] = {}
        self._soon: deque[Callable[[], object]] = deque()
        self._serving = False
        loop.add_reader(self._epoll.fileno(), self._serve)

    def watch(self, fd: int, events: int, watcher: Watcher) -> None:
        """Call `watcher` whenever `fd` is ready for one of these events; with none, never."""
        _, before = self._watchers.get(fd, (None, 0))
        if events:
            self._watchers[fd] = watcher, events
        else:
            self._watchers.pop(fd, None)
        if events and before:
            self._epoll.modify(fd, events)
        elif events:
            self._epoll.register(fd, events)
        elif before:
            # Errors and hang-ups cannot be masked: a socket that nobody looks at must not be there.
            self._epoll.unregister(fd)

    def soon(self, callback: Callable[[], object]) -> None:
        """Call it when the socket that is being served has been, or in the loop's next turn."""
        if self._serving:
            self._soon.append(callback)
        else:
            self._loop.call_soon(callback)

    def close(self) -> None:
        if not self._epoll.closed:
            with suppress(ValueError, KeyError):
                self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._watchers.clear()

    def _serve(self) -> None:
        watchers, soon = self._watchers, self._soon
        self._serving = True
        try:
            for fd, ready in self._epoll.poll(0, _EVENTS_PER_TURN):
                found = watchers.get(fd)
                if found is None:
                    continue  # closed by one before it
                watcher, wanted = found
                if ready != wanted:
                    if ready & ~(READ | WRITE):
                        ready = wanted
                    ready &= wanted
                try:
                    watcher(ready)
                except Exception as error:  # noqa: BLE001 - rule 3
                    self._complain(error)
                while soon:
                    self._run(soon.popleft())
        finally:
            self._serving = False

    def _run(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - rule 3
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        self._loop.call_exception_handler(
            {"message": "a connection could not be served", "exception": error}
        )
