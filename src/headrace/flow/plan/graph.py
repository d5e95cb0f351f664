"""A plan as boxes and arrows: what is drawn, and what a running flow tells about itself."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.flow.plan.grouping import Grouping
from headrace.flow.plan.plan import DEFAULT_STREAM, Component, Guarantee, Plan
from headrace.flow.plan.stage import cut

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
class Node:
    """A component.

    Attributes:
        what: what it is made of, such as the bolt's class or the spout's topics.
        stage: which operator of Spark runs it.
        streams: the fields of each stream it emits.
    """

    name: str
    kind: str
    what: str
    parallelism: int
    stage: int
    stateful: bool
    streams: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Arrow:
    source: str
    target: str
    stream: str
    grouping: str

    @property
    def label(self) -> str:
        return self.grouping if self.stream == DEFAULT_STREAM else f"{self.stream}: {self.grouping}"


@dataclass(frozen=True, slots=True)
class Graph:
    name: str
    guarantee: str
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]

    @classmethod
    def of(cls, plan: Plan) -> "Graph":
        """The graph of a plan that has been checked."""
        layout = cut(plan)
        stages = {name: each.number for each in layout.stages for name in each.components}
        return cls(
            name=plan.name,
            guarantee=plan.guarantee.value,
            nodes=tuple(_node(each, stages[each.name]) for each in plan.components.values()),
            arrows=tuple(
                Arrow(source.component, reader.name, source.stream, _grouping(source.grouping))
                for reader in plan.components.values()
                for source in reader.inputs
            ),
        )

    @classmethod
    def of_query(cls, name: str, *, reads: str, writes: str) -> "Graph":
        """A query of Spark that has no plan: what it reads, itself, and where it writes.

        Args:
            reads: topics, with commas between. writes: a topic, or a folder.
        """
        parts = (("source", "spout", reads), (name, "bolt", "Spark"), ("sink", "sink", writes))
        return cls(
            name=name,
            guarantee=Guarantee.EXACTLY_ONCE.value,
            nodes=tuple(
                Node(part, kind, what, parallelism=1, stage=0, stateful=False, streams={})
                for part, kind, what in parts
            ),
            arrows=tuple(
                Arrow(source, target, DEFAULT_STREAM, "")
                for source, target in (("source", name), (name, "sink"))
            ),
        )

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Graph":
        """What `to_json` gave, after a way through a file."""
        return cls(
            name=found["name"],
            guarantee=found["guarantee"],
            nodes=tuple(Node(**each) for each in found["nodes"]),
            arrows=tuple(Arrow(**each) for each in found["arrows"]),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def node(self, name: str) -> Node:
        return next(each for each in self.nodes if each.name == name)

    def depths(self) -> dict[str, int]:
        """How many arrows lie, at most, between a node and the spouts before it."""
        depths = dict.fromkeys((each.name for each in self.nodes), 0)
        for _ in self.nodes:
            for each in self.arrows:
                depths[each.target] = max(depths[each.target], depths[each.source] + 1)
        return depths


def _node(component: Component, stage: int) -> Node:
    return Node(
        name=component.name,
        kind=component.kind.value,
        what=_what(component.work),
        parallelism=component.parallelism,
        stage=stage,
        stateful=component.stateful,
        streams={stream: each.ddl for stream, each in component.outputs.items()},
    )


def _what(work: Any) -> str:
    """What a user would call it: topics, or the name of a class or function."""
    topics = getattr(work, "topics", None) or getattr(work, "topic", None)
    if topics:
        return topics if isinstance(topics, str) else ", ".join(map(str, topics))
    for inner in ("bolt", "function", "aggregate"):
        found = getattr(work, inner, None)
        if found is not None:
            return str(getattr(found, "__qualname__", type(found).__name__))
    return type(work).__name__


def _grouping(grouping: Grouping) -> str:
    kind = type(grouping).__name__
    told = _GROUPINGS.get(kind, kind)
    return f"{told} {', '.join(grouping.field_names)}".rstrip()
