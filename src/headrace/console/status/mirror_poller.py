"""Reads how far the flows of mirrors are, from the clusters on both sides."""

import time
from collections.abc import Sequence
from typing import Final

from headrace.console.status.mirror_status import MirrorCluster, MirrorFlowStatus
from headrace.console.status.polling_thread import PollingThread
from headrace.console.status.series_set import SeriesSet
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.mirror.link.link_status import read_status_of
from headrace.model.clock import Clock
from headrace.model.error import HeadraceError

_FIRST_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
# A cluster that is away takes a while to find out; the others must not be asked more for it.
_PAUSE_FACTOR: Final = 4


class MirrorPoller(PollingThread):
    """Keeps the status of every flow of some files.

    Attributes:
        flows: as they were at the last poll. It is replaced, never changed.
        copied: how many offsets each flow has copied, over time, by its id.
    """

    def __init__(self, files: Sequence[MirrorFile], clock: Clock, interval_seconds: float) -> None:
        super().__init__("console-mirrors")
        self._files = tuple(files)
        self._clock = clock
        self._interval = interval_seconds
        self._polls = 0
        self.flows: tuple[MirrorFlowStatus, ...] = ()
        self.copied: SeriesSet[str] = SeriesSet()

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to poll."""
        return bool(self._files)

    def wait_for_first(self) -> None:
        """Return when every flow was looked at once, or after 10 seconds."""
        if self.is_needed:
            self.wait_until(lambda: self._polls > 0, _FIRST_SECONDS)

    def poll_once(self) -> float:
        began = time.monotonic()
        self.flows = tuple(_status(flow, file) for file in self._files for flow in file.flows)
        known = {each.id: each.copied for each in self.flows if each.problem is None}
        self.copied.add(self._clock.wall_ms(), known)
        self._polls += 1
        self.notify_waiting()
        took = time.monotonic() - began
        return min(max(self._interval, _PAUSE_FACTOR * took), _LONGEST_PAUSE_SECONDS)

    def release(self) -> None:
        """Nothing is kept open between two polls."""


def _status(flow: FlowSettings, file: MirrorFile) -> MirrorFlowStatus:
    clusters = {
        alias: MirrorCluster(alias, tuple(str(each) for each in client.bootstrap))
        for alias, client in file.clients.items()
    }
    try:
        return MirrorFlowStatus.of(flow, clusters, read_status_of(flow, file))
    except HeadraceError as error:
        return MirrorFlowStatus.of(flow, clusters, problem=str(error))
