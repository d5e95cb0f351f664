"""An executor whose work runs when the test says so."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class ManualThreads(Executor):
    """Keeps what is submitted until `run`; so a test sees what happens before, and after."""

    def __init__(self) -> None:
        self._work: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def __len__(self) -> int:
        return len(self._work)

    def submit(self, work: Callable[..., Any], /, *values: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._work.append((future, lambda: work(*values, **named)))
        return future

    def run(self) -> None:
        """Do everything that was submitted, in its order, in the calling thread."""
        while self._work:
            future, work = self._work.popleft()
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - as an executor does
                future.set_exception(error)
