"""Cutting a plan into stages. A stage is what runs together in one operator of Spark.

Theory of operation
-------------------
Rule 1: spouts are in stage 0.
Rule 2: a component is in the stage of its feeder when any of its tasks may receive a tuple (a local
        grouping) and it keeps no state. It is then called where its tuples are made.
Rule 3: otherwise its tuples are carried to the task that the grouping names: it is in the stage
        after its feeder's, or in a later one if another feeder is later.
Rule 4: an edge that crosses into a later stage carries chunks to slots. A slot is one task of one
        component. Slots are numbered over the whole plan in the order of declaration, so a plan
        that only grows at its end keeps the slots, and with them the state, of its first part.
"""

from dataclasses import dataclass

from headrace.flow.plan.check_plan import ordered_components
from headrace.flow.plan.plan import Input, Kind, Plan, PlanComponent


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream from a component to a reader. `carried`: over slots, into a later stage."""

    number: int
    reader: str
    input: Input
    carried: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """The components that run in one operator of Spark.

    Attributes:
        components: their names, each after those that feed it inside this stage.
        stateful: whether one of them keeps state or needs the clock.
        ticks: whether one of them needs the clock.
    """

    number: int
    components: tuple[str, ...]
    stateful: bool
    ticks: bool


@dataclass(frozen=True, slots=True)
class StageLayout:
    """A plan cut into stages: all that the runtime needs to know about its shape.

    Attributes:
        slots: the slots of each component that tuples are carried to.
    """

    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    slots: dict[str, range]

    @property
    def slot_count(self) -> int:
        return max((each.stop for each in self.slots.values()), default=0)

    def edges_from(self, component: str, stream: str) -> list[Edge]:
        return [
            each
            for each in self.edges
            if (each.input.component, each.input.stream) == (component, stream)
        ]


def stage_layout(plan: Plan) -> StageLayout:
    """Return the stages of a plan that has been checked."""
    level: dict[str, int] = {}
    ordered = ordered_components(plan)
    for component in ordered:
        level[component.name] = max(
            (
                level[each.component] + (0 if _runs_at_feeder(component, each) else 1)
                for each in component.inputs
            ),
            default=0,
        )
    edges = _edges(plan, level)
    return StageLayout(
        stages=_stages(ordered, level),
        edges=edges,
        slots=_slots(plan, {each.reader for each in edges if each.carried}),
    )


def _runs_at_feeder(component: PlanComponent, source: Input) -> bool:
    return source.grouping.is_local and not _needs_slot(component)


def _needs_slot(component: PlanComponent) -> bool:
    return component.stateful or component.tick_seconds is not None


def _stages(ordered: list[PlanComponent], level: dict[str, int]) -> tuple[Stage, ...]:
    stages = []
    for number in range(max(level.values()) + 1):
        here = [each for each in ordered if level[each.name] == number]
        stages.append(
            Stage(
                number=number,
                components=tuple(each.name for each in here),
                stateful=any(_needs_slot(each) for each in here),
                ticks=any(each.tick_seconds is not None for each in here),
            )
        )
    return tuple(stages)


def _edges(plan: Plan, level: dict[str, int]) -> tuple[Edge, ...]:
    edges: list[Edge] = []
    for reader in plan.components.values():
        for each in reader.inputs:
            carried = level[each.component] < level[reader.name]
            edges.append(Edge(len(edges), reader.name, each, carried))
    return tuple(edges)


def _slots(plan: Plan, carried_to: set[str]) -> dict[str, range]:
    slots: dict[str, range] = {}
    following = 0
    for component in plan.components.values():
        if component.kind is not Kind.SPOUT and component.name in carried_to:
            slots[component.name] = range(following, following + component.parallelism)
            following += component.parallelism
    return slots
