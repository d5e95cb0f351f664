"""What a task may ask of those who run it."""

from enum import Enum


class RequestScope(Enum):
    CURRENT_TASK = "current-task"
    ALL_TASKS_IN_CONTAINER = "all-tasks"


class TaskCoordinator:
    """Given to `process` and `window`.

    Attributes:
        asked: the widest scope for which a shutdown was asked for during a call.
    """

    def __init__(self) -> None:
        self.asked: RequestScope | None = None

    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Ask that what was done is kept. Every batch ends with that, stores, outputs and offsets
        together, so there is nothing to do earlier: a commit in the middle of a batch would be seen
        before the rest of it, and undone by nothing."""

    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Ask that the job ends: when every task has asked, or now with ALL_TASKS_IN_CONTAINER.

        What is left of the batch is still processed, because its offsets are committed as a whole.
        """
        if self.asked is not RequestScope.ALL_TASKS_IN_CONTAINER:
            self.asked = scope
