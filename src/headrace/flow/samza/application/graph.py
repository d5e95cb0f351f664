"""The operators of an application, and on which level each runs.

Theory of operation
-------------------
Samza sends what `partition_by` gives through a topic back to the same tasks. Here a plan has no
circles, so an application is cut into levels. The tasks of level 0 read the inputs, those of level
1 what was moved once, and so on. All operators of a level run in one component of the plan, one
task per partition, as all operators of a Samza task do.

Rule 1: an operator runs on the highest level of what it reads. What it reads of lower levels is
        carried there, to the task of the same number.
Rule 2: the messages behind an operator that moves are one level higher than the operator.
Rule 3: a table is on one level: the highest on which it is written or joined.
"""

from dataclasses import dataclass, field

from headrace.flow.error import FlowError
from headrace.flow.samza.application.operator import Operator


@dataclass(slots=True)
class OperatorGraph:
    """Operators by number, each after those that it reads.

    Attributes:
        feeders: for each operator the numbers of those that it reads, in the order of its ports.
    """

    operators: list[Operator] = field(default_factory=list)
    feeders: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, operator: Operator, feeders: tuple[int, ...], name: str | None) -> int:
        """Add an operator, and return its number.

        Raises:
            FlowError: the name is taken.
        """
        if name is None:
            count = sum(1 for each in self.operators if each.kind == operator.kind)
            name = f"{operator.kind}-{count + 1}"
        if any(each.name == name for each in self.operators):
            raise FlowError(f"two operators are called {name!r}: each has a name of its own")
        operator.name = name
        self.operators.append(operator)
        self.feeders.append(feeders)
        return len(self.operators) - 1

    def readers(self) -> list[list[tuple[int, int]]]:
        """Return for each operator the number and the port of those that read it."""
        readers: list[list[tuple[int, int]]] = [[] for _ in self.operators]
        for number, feeders in enumerate(self.feeders):
            for port, feeder in enumerate(feeders):
                readers[feeder].append((number, port))
        return readers

    def levels(self) -> list[int]:
        """Return the level of each operator.

        Raises:
            FlowError: a table is written by what was joined with it and then moved.
        """
        tables: dict[str, int] = {}
        while True:
            levels: list[int] = []
            for number, operator in enumerate(self.operators):
                least = tables.get(operator.table, 0) if operator.table is not None else 0
                behind = (
                    levels[each] + self.operators[each].moves for each in self.feeders[number]
                )
                levels.append(max(least, *behind, 0))
            raised = dict(tables)
            for level, operator in zip(levels, self.operators, strict=True):
                if operator.table is not None:
                    raised[operator.table] = max(level, raised.get(operator.table, 0))
            if raised == tables:
                return levels
            highest = max(raised, key=lambda each: raised[each])
            if raised[highest] > len(self.operators):
                raise FlowError(
                    f"the table {highest} is written by messages that were joined with it and then"
                    " moved by partition_by or broadcast: let them go to a topic, and read it as"
                    " an input"
                )
            tables = raised

    def inputs_of(self, number: int) -> set[int]:
        """Return the inputs whose partitions decide in which task an operator gets a message."""
        found: set[int] = set()
        for feeder in self.feeders[number]:
            if not self.operators[feeder].moves:
                found |= self.inputs_of(feeder) if self.feeders[feeder] else {feeder}
        return found

    def is_moved(self, number: int) -> bool:
        """Return whether an operator reads something behind `partition_by` or `broadcast`."""
        return any(
            self.operators[each].moves or self.is_moved(each) for each in self.feeders[number]
        )
