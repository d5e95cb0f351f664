"""An asyncio event loop on a simulator's virtual clock, for one simulated broker.

Futures, tasks and timers of the real code under test become events of the simulator's queue, so
that a seed decides their order and nothing waits for real time. Work for threads runs at once, or
some virtual time later: whatever else happens in between happens on the loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from math import ceil
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")

_MOST_CALLS = 100_000


class LoopHost(Protocol):
    """What a loop needs of the simulator."""

    now_ms: int

    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...


class Endless(AssertionError):
    """Callbacks led to callbacks without end, and virtual time stood still."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in the events of a simulator.

    An exception that no code under test would handle ends the history: it is raised out of `run`.

    Args:
        idle: called whenever there is nothing left to do at this moment.
        thread_ms: returns how long the next piece of work for a thread waits.
    """

    def __init__(
        self, host: LoopHost, idle: Callable[[], None], thread_ms: Callable[[], int]
    ) -> None:
        self._host = host
        self._idle = idle
        self._thread_ms = thread_ms
        self._ready: deque[asyncio.Handle] = deque()
        self._running = False
        self._planned = False
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None

    # -- for the simulator

    def run(self, work: Callable[[], Result]) -> Result:
        """Run code that expects to be on the loop, and everything that it leads to."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            result = work()
        finally:
            asyncio._set_running_loop(before)
        if not self._running:
            self._drain()
        return result

    def close(self) -> None:
        """Run nothing any more: the process is gone. What it was about to do stays undone; not even
        a `finally` runs, until `discard`."""
        self._closed = True
        self._ready.clear()

    def discard(self) -> None:
        """Let go of the tasks of a closed loop, when the history is over."""
        self.close()
        for task in tuple(self._tasks):
            task.cancel()
        self._drain_ready()
        self._tasks.clear()

    # -- for the code under test

    def time(self) -> float:
        return self._host.now_ms / 1000

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *values: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, values, self, context)
        self._ready.append(handle)
        if not self._running and not self._planned and not self._closed:
            self._planned = True
            self._host.after(0, self._drain)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *values: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *values, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *values: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, values, self, context)

        def due() -> None:
            if not timer.cancelled() and not self._closed:
                self._ready.append(timer)
                self._drain()

        if not self._closed:
            self._host.after(max(0, ceil(when * 1000 - self._host.now_ms)), due)
        return timer

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, work: Coroutine[Any, Any, Result], *, name: str | None = None
    ) -> "asyncio.Task[Result]":
        task = asyncio.Task(work, loop=self, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, work: Callable[..., Result], *values: Any
    ) -> "asyncio.Future[Result]":
        done: asyncio.Future[Result] = self.create_future()

        def finish() -> None:
            if self._closed or done.done():
                return
            try:
                done.set_result(work(*values))
            except Exception as error:  # noqa: BLE001 - as an executor does
                done.set_exception(error)

        wait_ms = self._thread_ms()
        if wait_ms:
            self._host.after(wait_ms, lambda: None if self._closed else self.run(finish))
        else:
            finish()
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self._running and self._failure is None and isinstance(error, BaseException):
            self._failure = error

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when it is due."""

    # -- turns

    def _task_ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or self._failure is not None:
            return
        error = task.exception()
        if isinstance(error, AssertionError):
            # Of the simulator, or of the code under test: never part of a history.
            self._failure = error

    def _drain(self) -> None:
        self._planned = False
        if self._closed or self._running:
            return
        self._drain_ready()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self._idle()

    def _drain_ready(self) -> None:
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        self._running = True
        calls = 0
        try:
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
                calls += 1
                if calls > _MOST_CALLS:
                    raise Endless(f"{handle} came after {calls} others at one moment")
        finally:
            self._running = False
            asyncio._set_running_loop(before)
