"""Folding the tuples of a window."""

from headrace.flow.error import FlowError
from headrace.flow.plan.window import CountWindow, TimeWindow, Window
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.builtin.window_work import CountWindowWork, TimeWindowWork, WindowWork
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import no_origin
from headrace.flow.storm.windowed_bolt import clock_of

WindowSpec = CountWindow | TimeWindow


class WindowFold:
    """Folds the tuples of each window that closes."""

    def __init__(self, fold: Work) -> None:
        self.fold = fold

    def execute(self, window: Window, emit: Emit) -> None:
        context = TaskContext("", "window", 0, 1, state=TaskState(checkpointed=False))
        source = TupleSource("", "", no_origin(window.tuples.num_rows))
        self.fold.execute(window.tuples, emit, context, source)


def window_work(
    fold: Work, window: WindowSpec, *, grouped: bool
) -> tuple[WindowWork, float | None]:
    """Return the work of a windowed fold, and how often in seconds its clock ticks.

    Raises:
        FlowError: a window of so many tuples cannot be one of a group.
    """
    if grouped and isinstance(window, CountWindow):
        raise FlowError(
            "a window of so many tuples is one of a whole stream: leave group_by out, or use a"
            " TimeWindow"
        )
    on_window = WindowFold(fold)
    if isinstance(window, CountWindow):
        return CountWindowWork(on_window, window), None
    return TimeWindowWork(on_window, window), clock_of(window)
