"""Waits in the event loop for what an operation waits for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.wait import Wait


class StepWaiter:
    """Waits of one event loop. `wake` may be called in any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Have every condition asked again: the view of the streams has changed."""
        self._call(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, wait: Wait) -> None:
        """Return when it is over, or its time is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait.seconds):
                for each in wait.futures:
                    await self._done(each)
                if wait.condition is not None:
                    await self._until(wait.condition)

    async def _done(self, future: "Future[Any]") -> None:
        # Not `asyncio.wrap_future`: its copy of an exception would be logged as never retrieved.
        if not future.done():
            done = asyncio.Event()
            future.add_done_callback(lambda _: self._call(done.set))
            await done.wait()

    def _call(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)

    async def _until(self, condition: Callable[[], bool]) -> None:
        with suppress(ServiceError):  # the operation asks again, and gets it
            while True:
                changed = self._changed  # before the question: what changes after it is not missed
                if condition():
                    return
                await changed.wait()
