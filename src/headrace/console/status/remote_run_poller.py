"""Reads which flows report to the brokers from other machines, every few seconds."""

from typing import Final

from headrace.client.settings import ClientSettings
from headrace.console.status.polling_thread import PollingThread
from headrace.flow.error import FlowError
from headrace.flow.remote.remote_control import RemoteControl
from headrace.flow.remote.remote_run import RemoteRun
from headrace.model.clock import Clock

_MOST_RUNS: Final = 100
# Without the right to read the topic nothing changes soon.
_LONGEST_PAUSE_SECONDS: Final = 60.0


class RemoteRunPoller(PollingThread):
    """Keeps the flows of the last answer. In a thread of its own: brokers that do not answer delay
    no flow of this machine.

    Attributes:
        control: how to ask something of them; not for `runs`, which is the thread's.
        runs: those that report, then lost ones, up to some hundred.
    """

    def __init__(self, settings: ClientSettings, clock: Clock, interval_seconds: float) -> None:
        super().__init__("console-remote-runs")
        self.control = RemoteControl(settings, clock)
        self._interval = self._pause = interval_seconds
        self.runs: tuple[RemoteRun, ...] = ()

    def poll_once(self) -> float:
        try:
            now_ms = self.control.now_ms
            runs = sorted(
                self.control.runs(), key=lambda each: (each.is_lost(now_ms), -each.seen_ms)
            )
            self.runs = tuple(runs[:_MOST_RUNS])
            self._pause = self._interval
        except FlowError:
            # The cluster's own page says that it does not answer, or whom it refuses.
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self.notify_waiting()
        return self._pause

    def release(self) -> None:
        """Nothing is kept open between two polls."""
