"""Cutting a plan into stages: what runs together in one operator of Spark.

Theory of operation
-------------------
Rule 1: spouts are in stage 0.
Rule 2: a component is in the stage of its feeder when any task of it will do (a local grouping) and
        it keeps no state. It is then called right where its tuples are made.
Rule 3: otherwise its tuples are carried to the task that the grouping names: it is in the stage
        after its feeder's, or in a later one if another feeder is later.
Rule 4: an edge that crosses into a later stage carries chunks to slots. A slot is one task of one
        component; slots are numbered over the whole plan in the order of declaration, so a plan
        that only grows at its end keeps the slots, and with them the state, of what was there.
"""

from dataclasses import dataclass

from headrace.flow.plan.check import order
from headrace.flow.plan.plan import Component, Input, Kind, Plan


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream from a component to a reader. `carried`: over slots, into a later stage."""

    number: int
    reader: str
    input: Input
    carried: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs together.

    Attributes:
        components: each after those that feed it inside this stage.
        stateful: whether one of them keeps state or needs the clock.
    """

    number: int
    components: tuple[str, ...]
    stateful: bool
    ticks: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan that is cut: all that the runtime needs to know about its shape."""

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


def cut(plan: Plan) -> Layout:
    """The stages of a plan that has been checked."""
    level: dict[str, int] = {}
    ordered = order(plan)
    for component in ordered:
        level[component.name] = max(
            (
                level[each.component] + (0 if _runs_at_feeder(component, each) else 1)
                for each in component.inputs
            ),
            default=0,
        )
    edges = _edges(plan, level)
    return Layout(
        stages=_stages(ordered, level),
        edges=edges,
        slots=_slots(plan, {each.reader for each in edges if each.carried}),
    )


def _runs_at_feeder(component: Component, source: Input) -> bool:
    return source.grouping.is_local and not _needs_slot(component)


def _needs_slot(component: Component) -> bool:
    return component.stateful or component.tick_seconds is not None


def _stages(ordered: list[Component], level: dict[str, int]) -> tuple[Stage, ...]:
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
    found: list[Edge] = []
    for reader in plan.components.values():
        for each in reader.inputs:
            carried = level[each.component] < level[reader.name]
            found.append(Edge(len(found), reader.name, each, carried))
    return tuple(found)


def _slots(plan: Plan, carried_to: set[str]) -> dict[str, range]:
    slots: dict[str, range] = {}
    following = 0
    for component in plan.components.values():
        if component.kind is not Kind.SPOUT and component.name in carried_to:
            slots[component.name] = range(following, following + component.parallelism)
            following += component.parallelism
    return slots
