"""An answer that comes later, and is handed on in the very moment it is there."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Promise(Generic[Result]):
    """What a connection needs of `asyncio.Future`, without the turn of the event loop that a future
    takes to tell that it is done. A long poll that ends is answered by whoever ended it.

    Like a future that is not a task it is a wait, not work: `cancel` ends it. Lives on the loop.

    Example:
        promise: Promise[int] = Promise()
        promise.add_done_callback(lambda done: print(done.result()))
        promise.set_result(7)
    """

    __slots__ = ("_callbacks", "_cancelled", "_done", "_error", "_result")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Promise[Result]], object]] = []
        self._done = False
        self._cancelled = False
        self._error: BaseException | None = None
        self._result: Result | None = None

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return self._cancelled

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Result:
        """Only when it is done, and was not cancelled."""
        assert self._done and not self._cancelled, "a promise that was not kept has no result"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def add_done_callback(self, callback: "Callable[[Promise[Result]], object]") -> None:
        """Called once, at once if it is done already; in the order in which they were added."""
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def set_result(self, result: Result) -> None:
        self._result = result
        self._finish()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._finish()

    def cancel(self) -> None:
        if not self._done:
            self._cancelled = True
            self._finish()

    def _finish(self) -> None:
        assert not self._done, "a promise is kept once"
        self._done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def future_of(
    promise: Promise[Result], loop: asyncio.AbstractEventLoop
) -> "asyncio.Future[Result]":
    """For those who can only await; a future that is cancelled cancels the promise."""
    future: asyncio.Future[Result] = loop.create_future()

    def kept(done: Promise[Result]) -> None:
        if future.done():
            return
        error = done.exception()
        if done.cancelled():
            future.cancel()
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    def given_up(done: "asyncio.Future[Result]") -> None:
        if done.cancelled():
            promise.cancel()

    promise.add_done_callback(kept)
    future.add_done_callback(given_up)
    return future
