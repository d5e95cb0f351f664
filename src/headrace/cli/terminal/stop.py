"""Ctrl-C and SIGTERM, handled between two steps and not in the middle of one."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class Stop:
    """Records the first signal; the second one raises `KeyboardInterrupt`.

    Inside `waiting()` the first signal raises it too. Use `waiting()` around what may take long and
    may be interrupted, so that the steps in between (print, then commit) always finish.

    Example:
        with Stop() as stop:
            while not stop.requested:
                with stop.waiting():
                    batch = wait_for_records()
                print_and_commit(batch)
    """

    def __init__(self) -> None:
        self.requested = False
        self._waiting = False
        self._before: list[tuple[signal.Signals, Any]] = []

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._waiting = True
        try:
            if self.requested:
                raise KeyboardInterrupt
            yield
        finally:
            self._waiting = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.requested = self.requested, True
        if again or self._waiting:
            raise KeyboardInterrupt

    def __enter__(self) -> "Stop":
        for each in (signal.SIGINT, signal.SIGTERM):
            self._before.append((each, signal.signal(each, self._handle)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each, handler in self._before:
            signal.signal(each, handler)
