"""What a user writes for `partition_persist`: an updater of a state."""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.flow.error import EmitError

Tuples = Sequence[tuple[Any, ...]]


class TridentCollector:
    """Takes the tuples that an updater emits: the stream of new values."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.tuples: list[tuple[Any, ...]] = []

    def emit(self, *values: Any) -> None:
        """Emit one tuple, a value per field.

        Raises:
            EmitError: the values are not as many as the declared fields.
        """
        if len(values) != self._width:
            raise EmitError(
                f"an updater declares {self._width} fields of output and emitted {len(values)}:"
                f" {values!r}"
            )
        self.tuples.append(values)


class StateUpdater:
    """Base class of updaters. Implement `update_state`: it is called once per batch and task.

    A function of the same three arguments does as well.

    Example:
        class Locations(StateUpdater):
            def update_state(self, state, tuples, collector):
                state.multi_put((user, place) for user, place in tuples)
    """

    def prepare(self, task: int, tasks: int) -> None:
        """Make what does not pickle. Called once per task and worker process."""

    def update_state(self, state: Any, tuples: Tuples, collector: TridentCollector) -> None:
        """Change a state by all tuples that the batch has in this task.

        Args:
            state: a `MapState`, or what the factory's `make_state` returned.
            tuples: the values of the input fields.
        """
        raise NotImplementedError

    def cleanup(self) -> None:
        """Release what `prepare` made."""


UpdateFunction = Callable[[Any, Tuples, TridentCollector], None]


def update_function(updater: Any) -> UpdateFunction:
    function: UpdateFunction = getattr(updater, "update_state", updater)
    return function
