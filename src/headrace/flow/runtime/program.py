"""A plan on its way to Spark's workers, and the bolts that a worker has prepared."""

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.flow.plan.plan import Component, Plan
from headrace.flow.plan.stage import Layout
from headrace.flow.runtime.report import ReportAddress
from headrace.flow.runtime.work import TaskContext, Work


@dataclass(frozen=True, slots=True)
class Program:
    """What every worker gets.

    Attributes:
        run: names one start of the program.
        report_to: where tasks tell what they have counted.
    """

    plan: Plan
    layout: Layout
    run: str
    report_to: ReportAddress | None = None

    def component(self, name: str) -> Component:
        return self.plan.components[name]


class Cast:
    """The bolts of one run of a program in one worker process, each prepared once a task.

    A worker outlives batches, so a model that a bolt loads in `prepare` is loaded once.

    Attributes:
        states: what the worker remembers of its tasks' states; see `task_state`.
    """

    def __init__(self) -> None:
        self._works: dict[tuple[str, int], Work] = {}
        self.states: dict[int, tuple[bytes, int, Any]] = {}

    def play(self, program: Program, context: TaskContext, copy: Callable[[Any], Any]) -> Work:
        """The work of one task, prepared.

        Args:
            copy: makes a task's own object of the one that travelled, so that two tasks in one
                process do not share attributes.
        """
        place = context.component, context.task
        work = self._works.get(place)
        if work is None:
            work = copy(program.component(context.component).work)
            work.prepare(context)
            self._works[place] = work
        return work

    def clear(self) -> None:
        """Let every bolt clean up. One that raises keeps no other from it, and cannot end the batch
        of another program, for which this one has to leave."""
        for (component, task), work in self._works.items():
            try:
                work.cleanup()
            except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
                told = f"{type(error).__name__}: {error}"
                sys.stderr.write(f"cleanup of {component}, task {task}, raised {told}\n")
        self._works.clear()
        self.states.clear()


# Spark gives one worker process to several queries in turn; more than these are not kept ready.
_MAX_CASTS = 4
_CASTS: OrderedDict[str, Cast] = OrderedDict()


def cast_of(program: Program) -> Cast:
    """This process's cast of a run; the one that was not needed for longest may have to leave."""
    cast = _CASTS.pop(program.run, None) or Cast()
    _CASTS[program.run] = cast
    while len(_CASTS) > _MAX_CASTS:
        _, oldest = _CASTS.popitem(last=False)
        oldest.clear()
    return cast
