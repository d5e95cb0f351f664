"""Storm's groupings: which task of a bolt receives a tuple."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TaskChoice = Callable[[Any, int], Any]
"""A function of a pyarrow RecordBatch and the number of tasks: a task number for each row."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """How an edge divides tuples between the tasks of the bolt at its end."""

    @property
    def is_local(self) -> bool:
        """Whether any task may receive a tuple, so that the bolt can run where it was made."""
        return False

    @property
    def field_names(self) -> tuple[str, ...]:
        """The fields that decide on the task."""
        return ()


@dataclass(frozen=True, slots=True)
class Shuffle(Grouping):
    """Sends tuples evenly to all tasks."""

    @property
    def is_local(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class LocalOrShuffle(Shuffle):
    """Sends a tuple to a task in the same process, if there is one."""


@dataclass(frozen=True, slots=True)
class NoGrouping(Shuffle):
    """Sends a tuple to any task."""


@dataclass(frozen=True, slots=True)
class FieldsGrouping(Grouping):
    """Sends tuples with the same values of these fields to the same task, in their order."""

    names: tuple[str, ...]

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True, slots=True)
class PartialKey(FieldsGrouping):
    """Sends tuples with the same values of these fields to two tasks, the less loaded one first."""


@dataclass(frozen=True, slots=True)
class All(Grouping):
    """Sends a copy to every task."""


@dataclass(frozen=True, slots=True)
class Global(Grouping):
    """Sends every tuple to the first task."""


@dataclass(frozen=True, slots=True)
class Direct(Grouping):
    """Sends a tuple to the task that the emitter names."""


@dataclass(frozen=True, slots=True)
class Custom(Grouping):
    """Sends a tuple to the task that a user's function chooses."""

    choose: TaskChoice
