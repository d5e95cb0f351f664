"""An executor without threads."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class InlineExecutor(Executor):
    """Runs at once what a thread would run later."""

    def submit(self, work: Callable[..., Any], /, *values: Any, **named: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(work(*values, **named))
        except Exception as error:  # noqa: BLE001 - as an executor does
            done.set_exception(error)
        return done
