"""A daemon thread that polls something every few seconds and can be asked to poll at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import Final

import structlog

_JOIN_SECONDS: Final = 30.0
_FAILED_SECONDS: Final = 10.0
_log = structlog.get_logger(__name__)


class PollingThread(ABC):
    """Calls `poll_once` until it is stopped, with a pause after each call.

    A subclass implements two methods, both called in the thread only:

    - `poll_once` polls, calls `notify_waiting` when others may read the result, and returns how
      many seconds to pause.
    - `release` frees what `poll_once` holds. It is called once, when the thread ends for any
      reason.

    Threads: `start`, `stop`, `refresh` and `wait_until` may be called from any thread.
    """

    def __init__(self, name: str) -> None:
        self._stopping = Event()
        self._wake = Event()
        self._polled = Condition()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def poll_once(self) -> float:
        """Poll, and return the seconds to pause. A domain error must not leave this method."""

    @abstractmethod
    def release(self) -> None:
        """Close connections and pools."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when the poll in progress is over, or after 30 seconds."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_JOIN_SECONDS)

    def refresh(self) -> None:
        """Poll now instead of after the pause, because something was changed."""
        self._wake.set()

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a poll after which the condition holds; return whether it does."""
        with self._polled:
            return self._polled.wait_for(condition, seconds)

    def notify_waiting(self) -> None:
        """Let every `wait_until` look at its condition again."""
        with self._polled:
            self._polled.notify_all()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    pause = self.poll_once()
                except Exception:  # noqa: BLE001 - a page must not stand still for ever
                    _log.exception("console_poll_failed", poller=self._thread.name)
                    pause = _FAILED_SECONDS
                self._wake.wait(pause)
                self._wake.clear()
        finally:
            self.release()
