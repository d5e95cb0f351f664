"""Calls connections when their sockets are ready, for less than the event loop takes for it.

The event loop makes a handle, runs a context and looks at two callbacks for each socket that is
ready; with small requests that is a tenth of a broker's time. So a broker's own event loop
(`BrokerEventLoop`) lets the poller serve sockets out of the epoll that they share. In any other
loop connections are watched by an epoll of their own, which the loop watches like a single socket
(an epoll can be polled itself). Everything else, as timers, tasks and listening sockets, stays with
the event loop.

Rule 1: a watcher serves what it can without waiting and returns.
Rule 2: what one socket's event causes elsewhere (`call_after_event`) runs right after that event,
not in a later turn of the loop: a consumer that waits for records has them as soon as the producer
has its response.
Rule 3: an exception in serving one socket goes to the event loop's exception handler, and the
others are served. That holds for a cancellation, too, which would end the event loop.
Rule 4: when several sockets were ready, more may be by now: the poller looks again before the loop
has its turn for everything else, until `_EVENTS_PER_TURN` were served.
"""

import asyncio
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from headrace.broker.network.event_loop import EVENTS_PER_LOOK, BrokerEventLoop, Ready

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
        self._watchers: dict[int, tuple[Watcher, int]] = {}
        self._after_event: deque[Callable[[], object]] = deque()
        self._serving = False
        self._closed = False
        self._shared = isinstance(loop, BrokerEventLoop) and not loop.selector.serves
        if isinstance(loop, BrokerEventLoop) and self._shared:
            self._epoll = loop.selector.epoll
            loop.selector.serve_with(self._serve)
        else:
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._look)

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
        if self._closed:
            return
        self._closed = True
        if isinstance(self.loop, BrokerEventLoop) and self._shared:
            for fd in self._watchers:
                with suppress(OSError, ValueError):
                    self._epoll.unregister(fd)
            self.loop.selector.serve_with(None)
        else:
            with suppress(ValueError, KeyError):
                self.loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
        self._watchers.clear()

    def _look(self) -> None:
        """Serve what the poller's own epoll reports."""
        self._serve(self._epoll.poll(0, EVENTS_PER_LOOK))

    def _serve(self, ready: Ready) -> Ready:
        """Call the watchers of what is ready; return what has none, or has none any more."""
        watchers, after_event = self._watchers, self._after_event
        others: Ready = []
        left = _EVENTS_PER_TURN
        self._serving = True
        try:
            while True:
                for fd, events in ready:
                    watched = watchers.get(fd)
                    if watched is None:
                        others.append((fd, events))
                        continue
                    watcher, wanted = watched
                    if events != wanted:
                        if events & ~(READ | WRITE):
                            events = wanted
                        events &= wanted
                    try:
                        watcher(events)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # noqa: BLE001 - rule 3
                        self._report(error)
                    while after_event:
                        self._run(after_event.popleft())
                left -= len(ready)
                if len(ready) < 2 or others or left <= 0 or self._closed:
                    return others
                ready = self._epoll.poll(0, left)
        finally:
            self._serving = False

    def _run(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - rule 3
            self._report(error)

    def _report(self, error: BaseException) -> None:
        self.loop.call_exception_handler(
            {"message": "a connection could not be served", "exception": error}
        )
