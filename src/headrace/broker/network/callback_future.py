"""A future that calls its callbacks at once, in the call that completes it."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class CallbackFuture(Generic[Result]):
    """What a connection needs of `asyncio.Future`, without the extra turn of the event loop.

    An `asyncio.Future` schedules its callbacks for the loop's next turn. Here `set_result` calls
    them itself, so that the event that ends a long poll also sends its response.

    Like a future that is not a task it is a wait, not work: `cancel` ends it. Lives on the loop.

    Example:
        future: CallbackFuture[int] = CallbackFuture()
        future.add_done_callback(lambda done: print(done.result()))
        future.set_result(7)
    """

    __slots__ = ("_callbacks", "_cancelled", "_done", "_error", "_result")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[CallbackFuture[Result]], object]] = []
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
        """Return the result, or raise the exception, of a future that is done and not cancelled."""
        assert self._done and not self._cancelled, "only a future that is done has a result"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def add_done_callback(self, callback: "Callable[[CallbackFuture[Result]], object]") -> None:
        """Call `callback` once when this is done, at once if it is; in the order of adding."""
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
        assert not self._done, "a future is completed once"
        self._done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def future_of(
    waited: CallbackFuture[Result], loop: asyncio.AbstractEventLoop
) -> "asyncio.Future[Result]":
    """Return an awaitable future with the same outcome; cancelling either cancels the other."""
    future: asyncio.Future[Result] = loop.create_future()

    def complete(done: CallbackFuture[Result]) -> None:
        if future.done():
            return
        error = done.exception()
        if done.cancelled():
            future.cancel()
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    def cancel(done: "asyncio.Future[Result]") -> None:
        if done.cancelled():
            waited.cancel()

    waited.add_done_callback(complete)
    future.add_done_callback(cancel)
    return future
