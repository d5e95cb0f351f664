"""Log lines that any client can cause, limited to a few per second.

A client without any permission can connect, and be refused, a thousand times per second. Its
refusals must neither fill a disk with log lines nor cost the time to write them.
"""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

_WINDOW_SECONDS = 1.0
_LINES_PER_WINDOW = 10


class LimitedWarning:
    """Warnings of one kind of source. `left_out` on the next line says how many were not written.

    Args:
        time: seconds that only grow, as `loop.time`.
        log: the logger of the module that warns, so that its level decides.
    """

    def __init__(self, time: Callable[[], float], log: FilteringBoundLogger) -> None:
        self.count = 0
        self._log = log
        self._time = time
        self._window = -_WINDOW_SECONDS
        self._lines = 0
        self._left_out = 0

    def warn(self, event: str, **fields: object) -> bool:
        """Write a line, or leave it out; return whether it was written."""
        self.count += 1
        now = self._time()
        if now - self._window >= _WINDOW_SECONDS:
            self._window, self._lines = now, 0
        if self._lines == _LINES_PER_WINDOW:
            self._left_out += 1
            return False
        self._lines += 1
        if self._left_out:
            fields["left_out"], self._left_out = self._left_out, 0
        self._log.warning(event, **fields)
        return True
