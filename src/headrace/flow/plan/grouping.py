"""Storm's groupings: which task of a bolt gets a tuple."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TaskChoice = Callable[[Any, int], Any]
"""Takes a pyarrow RecordBatch and the number of tasks; gives a task number for each of its rows."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """How an edge divides tuples between the tasks of the bolt at its end."""

    @property
    def is_local(self) -> bool:
        """Whether any task will do, so that the bolt may run where the tuple was made."""
        return False

    @property
    def field_names(self) -> tuple[str, ...]:
        """The fields it looks at."""
        return ()


@dataclass(frozen=True, slots=True)
class Shuffle(Grouping):
    """Evenly, to no task in particular."""

    @property
    def is_local(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class LocalOrShuffle(Shuffle):
    """Where it was made, if that can be."""


@dataclass(frozen=True, slots=True)
class NoGrouping(Shuffle):
    """It does not matter where."""


@dataclass(frozen=True, slots=True)
class FieldsGrouping(Grouping):
    """The same values of these fields always to the same task, in their order."""

    names: tuple[str, ...]

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True, slots=True)
class PartialKey(FieldsGrouping):
    """Each value of these fields to one of two tasks, whichever has less to do."""


@dataclass(frozen=True, slots=True)
class All(Grouping):
    """A copy to every task."""


@dataclass(frozen=True, slots=True)
class Global(Grouping):
    """Everything to the first task."""


@dataclass(frozen=True, slots=True)
class Direct(Grouping):
    """To the task that the emitter names."""


@dataclass(frozen=True, slots=True)
class Custom(Grouping):
    """As the user's function says."""

    choose: TaskChoice
