"""The components of a plan for an application: one for each of its levels."""

from collections.abc import Iterable, Mapping

from headrace.flow.error import FlowError
from headrace.flow.plan.grouping import All, Direct
from headrace.flow.plan.plan import DEFAULT_STREAM, Input, Kind, PlanComponent
from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.samza.application.application_work import (
    MESSAGE_FIELDS,
    ApplicationWork,
    LevelLayout,
    to_level,
)
from headrace.flow.samza.application.graph import OperatorGraph
from headrace.flow.samza.application.operator import PartitionByOperator
from headrace.flow.samza.application.stream_application import Application
from headrace.flow.samza.config import JobConfig


class ApplicationPlan:
    """The levels of an application, with names and numbers of tasks.

    Args:
        partitions: the number of partitions of each input, by `system.topic`.
        kept: the number of tasks of each component in the checkpoint, if there is one. Behind
            `partition_by` it decides on the task of a key, and so must not change.
        coordinator_topic: where requests of sinks go; None: nowhere.

    Raises:
        FlowError: what is joined has different numbers of partitions.
    """

    def __init__(
        self,
        config: JobConfig,
        partitions: Mapping[str, int],
        kept: Mapping[str, int],
        coordinator_topic: str | None,
    ) -> None:
        assert config.application is not None
        self._config = config
        self._coordinator_topic = coordinator_topic
        self._application = config.application
        self._graph = graph = config.application.graph
        self._levels = tuple(graph.levels())
        self.names = _names(self._application, self._levels)
        read = {number: partitions[text] for text, number in self._application.inputs.items()}
        behind = config.intermediate or max(read.values())
        tasks = [max(read.values()), *(kept.get(name, behind) for name in self.names[1:])]
        readers = tuple(tuple(each) for each in graph.readers())
        self.layout = LevelLayout(self._levels, readers, tuple(tasks))
        self._carried = self._carries()
        self._check(read)

    def reads_in_tasks(self) -> bool:
        """Return whether level 0 needs the records of a partition in a task of its own."""
        return self._is_stateful(0)

    def components(self, inputs: Iterable[Input]) -> dict[str, PlanComponent]:
        """Return the components.

        Level 0 is the last one: its tasks can become more, and those of others must keep their
        slots, by which Spark keeps the state.

        Args:
            inputs: of level 0.
        """
        order, records = [*range(1, len(self.names)), 0], tuple(inputs)
        return {self.names[each]: self._component(each, records) for each in order}

    def _component(self, level: int, records: tuple[Input, ...]) -> PlanComponent:
        outputs = {DEFAULT_STREAM: RECORD_FIELDS}
        inputs = records if level == 0 else ()
        for source, target, everyone in sorted(self._carried):
            stream = to_level(target, everyone=everyone)
            if source == level:
                outputs[stream] = MESSAGE_FIELDS
            if target == level:
                grouping = All() if everyone else Direct()
                inputs = (*inputs, Input(self.names[source], stream, grouping))
        return PlanComponent(
            name=self.names[level],
            kind=Kind.BOLT,
            work=ApplicationWork(self._config, self.layout, level, self._coordinator_topic),
            outputs=outputs,
            inputs=inputs,
            parallelism=self.layout.tasks[level],
            stateful=self._is_stateful(level),
            tick_seconds=self._tick_seconds(level),
            task_per_partition=True,
        )

    def _is_stateful(self, level: int) -> bool:
        pairs = zip(self._graph.operators, self._levels, strict=True)
        return any(each.stateful for each, its in pairs if its == level)

    def _tick_seconds(self, level: int) -> float | None:
        pairs = zip(self._graph.operators, self._levels, strict=True)
        clocks = [each.clock_seconds for each, its in pairs if its == level]
        needed = [each for each in clocks if each is not None]
        if not needed:
            return None
        return min(needed) if self._config.window_ms is None else self._config.window_ms / 1_000

    def _carries(self) -> set[tuple[int, int, bool]]:
        """Return from which level to which messages are carried, and whether to all tasks."""
        carries = set()
        for number, readers in enumerate(self.layout.readers):
            operator = self._graph.operators[number]
            everyone = operator.moves and not isinstance(operator, PartitionByOperator)
            for reader, _ in readers:
                source, target = self._levels[number], self._levels[reader]
                if source != target:
                    carries.add((source, target, everyone))
        return carries

    def _check(self, read: Mapping[int, int]) -> None:
        """Check that what must be in the same tasks is."""
        groups: dict[str, list[int]] = {}
        for number, operator in enumerate(self._graph.operators):
            if operator.table is not None:
                groups.setdefault(f"the table {operator.table}", []).append(number)
            elif operator.stateful and len(self._graph.feeders[number]) > 1:
                groups[f"the join {operator.name}"] = [number]
            elif self._levels[number]:
                tasks = self.layout.tasks[self._levels[number]]
                for each in self._graph.inputs_of(number):
                    if read[each] > tasks:
                        raise FlowError(self._unequal(operator.name, {each: read[each]}, tasks))
        for name, numbers in groups.items():
            inputs = {each for number in numbers for each in self._graph.inputs_of(number)}
            counts = {each: read[each] for each in inputs}
            moved = any(self._graph.is_moved(each) for each in numbers)
            tasks = self.layout.tasks[self._levels[numbers[0]]]
            if len({*counts.values(), *([tasks] if moved and inputs else [])}) > 1:
                raise FlowError(self._unequal(name, counts, tasks if moved else None))

    def _unequal(self, name: str, counts: Mapping[int, int], tasks: int | None) -> str:
        have = [
            f"{self._graph.operators[each].name} has {count} partitions"
            for each, count in sorted(counts.items())
        ]
        if tasks is not None:
            have.append(f"there are {tasks} tasks behind partition_by")
        return (
            f"{name} reads streams that are divided differently: {', '.join(have)}; write"
            " partition_by before it on every side"
        )


def _names(application: Application, levels: tuple[int, ...]) -> list[str]:
    """Return the name of each level's component: the class, or what moves messages there."""
    graph: OperatorGraph = application.graph
    names = [application.name]
    for level in range(1, max(levels) + 1):
        movers = [
            each.name
            for each, its in zip(graph.operators, levels, strict=True)
            if each.moves and its == level - 1
        ]
        names.append("+".join(movers))
    return names
