"""How late the event loop is, and in debug mode what kept it.

Rule 1: nothing on the loop may wait for a disk, a compression or another thread. All requests of a
broker share it, so what holds it for 50 ms costs every client 50 ms.
Rule 2: this watch must not cost more than it shows. The loop notes the time ten times per second.
Only when `headrace.debug.loop.ms` is set does it beat faster, and a thread looks at the beats.
Rule 3: a sync on the loop is a fault however short it was: the next one may take seconds. It is
counted each time, and named up to ten times per second, whatever the limit.

The thread takes the loop's stack while it is held: it names the culprit, not who ran before or
after. It can only look when it gets the GIL, so work that never gives that away is seen when it
ends or when Python takes the GIL from it, after 5 ms.
"""

import asyncio
import sys
import threading
from traceback import StackSummary, walk_stack
from types import FrameType

import structlog

from headrace.broker.limited_warning import LimitedWarning
from headrace.telemetry.histogram import Histogram

log = structlog.get_logger(__name__)

_BEAT_SECONDS = 0.1
_BEATS_PER_LIMIT = 4
# The frames of asyncio itself, at the outer end, say nothing.
_SHOWN_FRAMES = 8


class LoopWatch:
    """Measures the loop it is started on.

    Attributes:
        lag: how many seconds after their time the loop's timers ran.
        syncs: counts the syncs that the loop waited for, since it was started.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, limit_ms: int = 0) -> None:
        """`limit_ms` names what holds the loop for longer; 0 names nothing."""
        self.lag = Histogram()
        self._loop = loop
        self._limit_seconds = limit_ms / 1000
        self._beat_seconds = _BEAT_SECONDS
        if limit_ms:
            self._beat_seconds = min(_BEAT_SECONDS, self._limit_seconds / _BEATS_PER_LIMIT)
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self._loop_thread = 0
        self._synced = LimitedWarning(loop.time, log)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin. Call it on the loop."""
        self._loop_thread = threading.get_ident()
        self._schedule()
        if self._limit_seconds:
            self._thread = threading.Thread(target=self._look, name="loop-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def syncs(self) -> int:
        return self._synced.count

    def note_sync(self, seconds: float) -> None:
        """Take notice of a sync that took so long, on the thread that waited for it (rule 3)."""
        if threading.get_ident() != self._loop_thread or self._stopped.is_set():
            return
        stack = _stack_of(sys._getframe(1))
        self._synced.warn("event_loop_synced", milliseconds=round(seconds * 1000, 1), stack=stack)

    def _schedule(self) -> None:
        self._due = self._loop.time() + self._beat_seconds
        self._timer = self._loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        self.lag.observe(max(0.0, self._loop.time() - self._due))
        self._schedule()

    def _look(self) -> None:
        """Log one line each time the loop is held for longer than the limit, when it goes on."""
        held: tuple[float, str] | None = None
        while not self._stopped.wait(self._beat_seconds):
            due = self._due
            late_seconds = self._loop.time() - due
            if held is not None and due != held[0]:
                log.warning(
                    "event_loop_held", at_least_ms=round((due - held[0]) * 1000), stack=held[1]
                )
                held = None
            if held is None and late_seconds > self._limit_seconds:
                frame = sys._current_frames().get(self._loop_thread)
                held = due, "" if frame is None else _stack_of(frame)


def _stack_of(frame: FrameType) -> str:
    """Return where a thread is, the innermost frame last."""
    frames = list(StackSummary.extract(walk_stack(frame), limit=_SHOWN_FRAMES, lookup_lines=False))
    return " > ".join(f"{each.filename}:{each.lineno} {each.name}" for each in reversed(frames))
