"""A plan on its way to Spark's workers, and the bolts that a worker has prepared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.flow.plan import Component, Plan
from headrace.flow.runtime.work import TaskContext, Work
from headrace.flow.stage import Layout


@dataclass(frozen=True, slots=True)
class Program:
    """What every worker gets. `run` names one start of the program."""

    plan: Plan
    layout: Layout
    run: str

    def component(self, name: str) -> Component:
        return self.plan.components[name]


class Cast:
    """The bolts of one worker process, each prepared once a task.

    A worker outlives batches, so a model that a bolt loads in `prepare` is loaded once. A new start
    of a program cleans up after the one before.
    """

    def __init__(self) -> None:
        self._run = ""
        self._works: dict[tuple[str, int], Work] = {}
        self.states: dict[int, tuple[bytes, int, Any]] = {}

    def play(self, program: Program, context: TaskContext, copy: Callable[[Any], Any]) -> Work:
        """The work of one task, prepared.

        Args:
            copy: makes a task's own object of the one that travelled, so that two tasks in one
                process do not share attributes.
        """
        if program.run != self._run:
            self.clear()
            self._run = program.run
        place = context.component, context.task
        work = self._works.get(place)
        if work is None:
            work = copy(program.component(context.component).work)
            work.prepare(context)
            self._works[place] = work
        return work

    def clear(self) -> None:
        for work in self._works.values():
            work.cleanup()
        self._works.clear()
        self.states.clear()


CAST = Cast()
"""This process's own."""
