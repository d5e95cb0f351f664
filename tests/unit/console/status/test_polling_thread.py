"""The thread below both pollers: it polls, pauses, wakes up early and ends."""

from threading import Event

from structlog.testing import capture_logs

from headrace.console.status.polling_thread import PollingThread
from headrace.testing.readiness import wait_until

FOREVER = 3_600.0


class CountingThread(PollingThread):
    """Counts its polls, and pauses after each for an hour."""

    def __init__(self, pause: float = FOREVER) -> None:
        super().__init__("counting")
        self.polls = 0
        self.released = Event()
        self._pause = pause

    def poll_once(self) -> float:
        self.polls += 1
        self.notify_waiting()
        return self._pause

    def release(self) -> None:
        self.released.set()


def test_it_polls_again_after_the_pause() -> None:
    thread = CountingThread(pause=0.01)
    thread.start()
    try:
        assert thread.wait_until(lambda: thread.polls >= 3, 30)
    finally:
        thread.stop()


def test_a_refresh_ends_the_pause() -> None:
    thread = CountingThread()
    thread.start()
    try:
        assert thread.wait_until(lambda: thread.polls == 1, 30)
        thread.refresh()
        assert thread.wait_until(lambda: thread.polls == 2, 30)
    finally:
        thread.stop()


def test_stop_ends_the_pause_and_releases() -> None:
    thread = CountingThread()
    thread.start()
    thread.stop()
    assert thread.released.is_set()


def test_waiting_for_what_never_comes_ends_with_false() -> None:
    thread = CountingThread()
    assert not thread.wait_until(lambda: thread.polls > 0, 0.01)


def test_stop_without_start_returns() -> None:
    thread = CountingThread()
    thread.stop()
    assert not thread.released.is_set()


def test_a_poll_that_raises_does_not_end_the_polling() -> None:
    class Raising(CountingThread):
        def poll_once(self) -> float:
            if not self.polls:
                super().poll_once()
                raise RuntimeError("a defect")
            return super().poll_once()

    thread = Raising()
    with capture_logs() as lines:
        thread.start()
        wait_until(lambda: bool(lines), what="the line about it")
        thread.refresh()
        assert thread.wait_until(lambda: thread.polls == 2, 30)
        thread.stop()
    assert [line["event"] for line in lines] == ["console_poll_failed"]
    assert thread.released.is_set()
