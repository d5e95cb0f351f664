"""Requests of a task to the job that runs it."""

from enum import Enum


class RequestScope(Enum):
    """Whether a request is for one task or for all of its container."""

    CURRENT_TASK = "current-task"
    ALL_TASKS_IN_CONTAINER = "all-tasks"


class TaskCoordinator:
    """Takes a task's requests. `process` and `window` receive it.

    Attributes:
        shutdown_scope: the widest scope of the shutdowns that a call requested.
    """

    def __init__(self) -> None:
        self.shutdown_scope: RequestScope | None = None

    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Do nothing: every batch commits stores, outputs and offsets together at its end.

        A commit in the middle of a batch would become visible before the rest of it, and could not
        be undone.
        """

    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Request the end of the job: when every task has, or now with ALL_TASKS_IN_CONTAINER.

        The rest of the batch is still processed, because its offsets are committed as a whole.
        """
        if self.shutdown_scope is not RequestScope.ALL_TASKS_IN_CONTAINER:
            self.shutdown_scope = scope
