"""The bolts that a Spark worker process has prepared, by run and task."""

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from headrace.flow.plan.work import TaskContext, Work
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.state_memory import StateMemory


class WorkerTasks:
    """The tasks of one run in one worker process, each prepared once.

    A worker outlives batches, so a model that a bolt loads in `prepare` is loaded once.

    Attributes:
        plan: the name of the run's plan.
        states: what the worker remembers of its tasks' states.
    """

    def __init__(self, plan: str) -> None:
        self.plan = plan
        self._works: dict[tuple[str, int | None], Work] = {}
        self._loads: dict[int, list[int]] = {}
        self.states = StateMemory()

    def prepared(
        self, context: TaskContext, sent: Any, copy: Callable[[Any], Any], *, shared: bool
    ) -> Work:
        """Return the work of one task; the first call prepares it.

        Args:
            shared: the component runs at its feeder and has no tasks of its own. One copy serves
                every Spark partition that this process works on, one after the other.
            sent: the component's work, as Spark sent it to this process.
            copy: makes a task's own object of it, so that two tasks in one process do not share
                attributes.
        """
        task = context.component, None if shared else context.task
        work = self._works.get(task)
        if work is None:
            created: Work = copy(sent)
            created.prepare(context)
            work = self._works[task] = created
        return work

    def load(self, edge: int, tasks: int) -> list[int]:
        """Return how many tuples of a `partial_key` edge this process has sent to each task.

        Storm's emitters count from their start too: with small batches, counts that begin at zero
        would choose the same task of the two again and again.
        """
        return self._loads.setdefault(edge, [0] * tasks)

    def clear(self) -> None:
        """Call `cleanup` of every bolt.

        A bolt that raises does not keep the others from their cleanup. It cannot fail the batch of
        the run that replaces this one either.
        """
        for (component, task), work in self._works.items():
            try:
                work.cleanup()
            except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
                reason = f"{type(error).__name__}: {error}"
                where = component if task is None else f"{component}, task {task},"
                sys.stderr.write(f"cleanup of {where} raised {reason}\n")
        self._works.clear()
        self.states.clear()


# Spark gives one worker process to several queries in turn. The tasks of at most so many runs stay.
_MAX_RUNS = 4
_RUNS: OrderedDict[str, WorkerTasks] = OrderedDict()


def worker_tasks(run: PlanRun) -> WorkerTasks:
    """Return this process's tasks of a run.

    Past `_MAX_RUNS` the run that was not used for longest is cleaned up and dropped. The states of
    earlier runs of the same plan leave at once: a restart goes on from the checkpoint.
    """
    tasks = _RUNS.pop(run.id, None)
    if tasks is None:
        tasks = WorkerTasks(run.plan.name)
        for earlier in _RUNS.values():
            if earlier.plan == tasks.plan:
                earlier.states.clear()
    _RUNS[run.id] = tasks
    while len(_RUNS) > _MAX_RUNS:
        _, oldest = _RUNS.popitem(last=False)
        oldest.clear()
    return tasks
