"""Bolts that are called with windows."""

from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.window import CountWindow, TimeWindow, Window
from headrace.flow.runtime.window_work import CountWindowWork, TimeWindowWork, WindowWork
from headrace.flow.runtime.work import Emit, TaskContext


class WindowedBolt:
    """Implement `execute`; it is called for each window that closes.

    A window is one of a task: with a fields grouping, of the keys that come to it. Its tuples are
    kept in the checkpoint until no window to come needs them.

    Example:
        class Busiest(WindowedBolt):
            def execute(self, window, emit):
                top = window.tuples["page"].value_counts()
                ...

        topology.bolt("busiest", Busiest(), output="page STRING, n BIGINT",
                      window=TimeWindow(60, slide_seconds=10)).fields("views", "page")
    """

    def prepare(self, context: TaskContext) -> None:
        """Called once a task and worker process, before the first window."""

    def execute(self, window: Window, emit: Emit) -> None:
        raise NotImplementedError

    def cleanup(self) -> None:
        """The bolt is not needed any more in this worker."""


def windowed(bolt: Any, window: CountWindow | TimeWindow | None, name: str) -> WindowWork:
    """The runtime's view of a bolt with a window.

    Raises:
        FlowError: one without the other.
    """
    if window is None:
        raise FlowError(
            f"the bolt {name} needs a window: write window=CountWindow(10) or TimeWindow(60)"
        )
    if not (isinstance(bolt, WindowedBolt) or (callable(bolt) and not isinstance(bolt, type))):
        raise FlowError(
            f"the bolt {name} has a window: give a WindowedBolt or a function (window, emit)"
        )
    if isinstance(window, CountWindow):
        return CountWindowWork(bolt, window)
    return TimeWindowWork(bolt, window)


def clock_of(window: CountWindow | TimeWindow | None) -> float | None:
    """How often the clock must be looked at to close windows."""
    if isinstance(window, TimeWindow) and window.timestamp is None:
        return window.step_ms / 1_000
    return None
