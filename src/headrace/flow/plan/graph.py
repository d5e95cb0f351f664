"""A plan as boxes and arrows, for pictures and for the metrics of a running flow."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.flow.plan.grouping import Grouping
from headrace.flow.plan.plan import DEFAULT_STREAM, Guarantee, Plan, PlanComponent
from headrace.flow.plan.stage import stage_layout

_GROUPINGS = {
    "Shuffle": "shuffle",
    "LocalOrShuffle": "local or shuffle",
    "NoGrouping": "none",
    "FieldsGrouping": "fields",
    "PartialKey": "partial key",
    "All": "all",
    "Global": "global",
    "Direct": "direct",
    "Custom": "custom",
}


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A component.

    Attributes:
        what: the bolt's class, or the spout's or sink's topics.
        stage: the number of the Spark operator that runs it.
        streams: the fields of each stream that it emits.
    """

    name: str
    kind: str
    what: str
    parallelism: int
    stage: int
    stateful: bool
    streams: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GraphArrow:
    """A stream from one component to another."""

    source: str
    target: str
    stream: str
    grouping: str

    @property
    def label(self) -> str:
        return self.grouping if self.stream == DEFAULT_STREAM else f"{self.stream}: {self.grouping}"


@dataclass(frozen=True, slots=True)
class Graph:
    """The components of a plan, and the streams between them."""

    name: str
    guarantee: str
    nodes: tuple[GraphNode, ...]
    arrows: tuple[GraphArrow, ...]

    @classmethod
    def of(cls, plan: Plan) -> "Graph":
        """Return the graph of a plan that has been checked."""
        layout = stage_layout(plan)
        stages = {name: each.number for each in layout.stages for name in each.components}
        return cls(
            name=plan.name,
            guarantee=plan.guarantee.value,
            nodes=tuple(_node(each, stages[each.name]) for each in plan.components.values()),
            arrows=tuple(
                GraphArrow(source.component, reader.name, source.stream, _grouping(source.grouping))
                for reader in plan.components.values()
                for source in reader.inputs
            ),
        )

    @classmethod
    def of_query(cls, name: str, *, reads: str, writes: str) -> "Graph":
        """Return the graph of a Spark query that has no plan: source, query, sink.

        Args:
            reads: topics, separated by commas.
            writes: a topic, or a folder.
        """
        parts = (("source", "spout", reads), (name, "bolt", "Spark"), ("sink", "sink", writes))
        return cls(
            name=name,
            guarantee=Guarantee.EXACTLY_ONCE.value,
            nodes=tuple(
                GraphNode(part, kind, what, parallelism=1, stage=0, stateful=False, streams={})
                for part, kind, what in parts
            ),
            arrows=tuple(
                GraphArrow(source, target, DEFAULT_STREAM, "")
                for source, target in (("source", name), (name, "sink"))
            ),
        )

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "Graph":
        """Return the graph that `to_json` described."""
        return cls(
            name=json["name"],
            guarantee=json["guarantee"],
            nodes=tuple(GraphNode(**each) for each in json["nodes"]),
            arrows=tuple(GraphArrow(**each) for each in json["arrows"]),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def node(self, name: str) -> GraphNode:
        return next(each for each in self.nodes if each.name == name)

    def depths(self) -> dict[str, int]:
        """Return for each node the length of the longest path to it from a spout."""
        depths = dict.fromkeys((each.name for each in self.nodes), 0)
        for _ in self.nodes:
            for each in self.arrows:
                depths[each.target] = max(depths[each.target], depths[each.source] + 1)
        return depths


def _node(component: PlanComponent, stage: int) -> GraphNode:
    return GraphNode(
        name=component.name,
        kind=component.kind.value,
        what=_what(component.work),
        parallelism=component.parallelism,
        stage=stage,
        stateful=component.stateful,
        streams={stream: each.ddl for stream, each in component.outputs.items()},
    )


def _what(work: Any) -> str:
    """Return a component's topics, or the name of the user's class or function."""
    topics = getattr(work, "topics", None) or getattr(work, "topic", None)
    if topics:
        return topics if isinstance(topics, str) else ", ".join(map(str, topics))
    for inner in ("bolt", "function", "aggregate", "spout"):
        wrapped = getattr(work, inner, None)
        if wrapped is not None:
            return str(getattr(wrapped, "__qualname__", type(wrapped).__name__))
    return type(work).__name__


def _grouping(grouping: Grouping) -> str:
    kind = type(grouping).__name__
    label = _GROUPINGS.get(kind, kind)
    return f"{label} {', '.join(grouping.field_names)}".rstrip()
