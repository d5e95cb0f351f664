"""Bolts that are called with windows."""

from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.window import CountWindow, TimeWindow, Window
from headrace.flow.plan.work import Emit, TaskContext
from headrace.flow.runtime.builtin.window_work import CountWindowWork, TimeWindowWork, WindowWork


class WindowedBolt:
    """Base class of windowed bolts. Implement `execute`: it is called for each window that closes.

    Each task has windows of its own, over the tuples that its grouping sends to it. The checkpoint
    keeps tuples until no later window needs them.

    Example:
        class Busiest(WindowedBolt):
            def execute(self, window, emit):
                top = window.tuples["page"].value_counts()
                ...

        topology.bolt("busiest", Busiest(), output="page STRING, n BIGINT",
                      window=TimeWindow(60, slide_seconds=10)).fields("views", "page")
    """

    def prepare(self, context: TaskContext) -> None:
        """Make connections and models. Called once per task and worker process, before the first
        window."""

    def execute(self, window: Window, emit: Emit) -> None:
        raise NotImplementedError

    def cleanup(self) -> None:
        """Release what `prepare` made: this worker no longer needs the bolt."""


def windowed(bolt: Any, window: CountWindow | TimeWindow | None, name: str) -> WindowWork:
    """Return the `Work` that runs a bolt over windows.

    Raises:
        FlowError: the window is missing, or the bolt cannot have one.
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
    """Return how often, in seconds, the clock closes windows; None if tuples close them."""
    if isinstance(window, TimeWindow) and window.timestamp is None:
        return window.step_ms / 1_000
    return None
