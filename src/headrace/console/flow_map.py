"""The picture of the flow: sources, topics, flows, groups and sinks, with what flows between them.

Rule 1: a group that belongs to a flow or an agent is drawn as that flow or agent, never twice.
Rule 2: what writes a topic is a flow or an agent that says so; topics that nobody claims are
        written by "producers".
Rule 3: the picture is bounded: flows and agents come first, then the busiest topics, then groups;
        how many are left out is told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from headrace.console.internal import is_internal_group, is_internal_topic
from headrace.console.layered import layered
from headrace.console.seen_agent import SeenAgent
from headrace.console.seen_flow import SeenFlow
from headrace.flow.execution.progress_group import flow_of, group_of
from headrace.lag.report import GroupLag

MOST_TOPICS: Final = 12
MOST_PROCESSORS: Final = 10
MOST_GROUPS: Final = 10
MOST_PLACES: Final = 10
# An agent's sinks that lead nowhere a person looks.
_NOWHERE: Final = frozenset({"logger", "null", "LoggerSink", "NullSink", ""})
_PRODUCERS: Final = "producers"
# What our source, like Spark's own, calls a query's group if nobody names it.
_SPARK_PREFIX: Final = "spark-kafka-source"
_WORSE: Final = ("OK", "WARN", "REWIND", "STALL", "STOP", "ERR")


@dataclass(frozen=True, slots=True)
class Scene:
    """What the picture is made of.

    Attributes:
        topics: records a second written to each topic of the cluster.
        groups: all groups.
        read: records a second that a group commits in a topic.
        counted: records a second that a part of a flow or agent writes, by
            ("flow", name, component) and ("agent", name, "sink k1").
        bytes_per_record: of each topic.
    """

    topics: Mapping[str, float]
    groups: Mapping[str, GroupLag] = field(default_factory=dict)
    flows: tuple[SeenFlow, ...] = ()
    agents: tuple[SeenAgent, ...] = ()
    read: Mapping[tuple[str, str], float] = field(default_factory=dict)
    counted: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    bytes_per_record: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Processor:
    """A flow or an agent: something between topics.

    Attributes:
        reads: topics, with records a second or None if nobody tells.
        writes: topics, with the rate its own figures tell.
        places: everything else it writes to, with a rate.
        groups: that are its own.
    """

    id: str
    kind: str
    name: str
    href: str
    note: str
    reads: dict[str, float | None] = field(default_factory=dict)
    writes: dict[str, float | None] = field(default_factory=dict)
    places: dict[str, float | None] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    status: str = ""

    @property
    def topics(self) -> set[str]:
        return {*self.reads, *self.writes}


def flow_map(scene: Scene) -> dict[str, Any]:
    """The picture as the page draws it: nodes, the layers they lie in, arrows with rates."""
    processors = [*(_flow(scene, each) for each in scene.flows)]
    processors += [_agent(scene, each) for each in scene.agents]
    folded = {group for each in processors for group in each.groups}
    processors += _told_by_groups(scene, folded)
    processors = [each for each in processors if each.topics or each.places]
    folded |= {group for each in processors for group in each.groups}

    processors.sort(key=lambda each: (-_traffic(scene, each.topics), each.id))
    shown = processors[:MOST_PROCESSORS]
    touched = {topic for each in shown for topic in each.topics}
    names = [each for each in scene.topics if not is_internal_topic(each)]
    names.sort(key=lambda each: (each not in touched, -scene.topics[each], each))
    topics = sorted(names[:MOST_TOPICS])
    readers = _readers(scene, topics, folded)
    drawing = _Drawing(scene)
    drawing.add_topics(topics)
    for each in shown:
        drawing.add_processor(each)
    for group in readers[:MOST_GROUPS]:
        drawing.add_group(group)
    drawing.add_producers(topics)
    return drawing.as_json() | {
        "more": {
            "topics": len(names) - len(topics),
            "flows": len(processors) - len(shown),
            "groups": max(len(readers) - MOST_GROUPS, 0),
        }
    }


def _traffic(scene: Scene, topics: Iterable[str]) -> float:
    return sum(scene.topics.get(each, 0.0) for each in topics)


def _flow(scene: Scene, flow: SeenFlow) -> _Processor:
    spouts = [each for each in flow.nodes if each.kind == "spout"]
    reads = _topics_in(scene, (each.what for each in spouts))
    groups = {group_of(flow.name), f"{_SPARK_PREFIX}-{','.join(reads)}"} & scene.groups.keys()
    made = _Processor(
        id=f"flow {flow.name} {flow.pid or ''}",
        kind="flow",
        name=flow.name,
        href="#/flows",
        note="flow",
        groups=groups,
        reads={topic: _read(scene, groups, topic) for topic in reads},
        status="ERR" if flow.problem else _status(scene, groups),
    )
    for node in flow.nodes:
        if node.kind != "sink":
            continue
        rate = scene.counted.get(("flow", flow.name, node.name))
        found = _topics_in(scene, [node.what])
        into, targets = (made.writes, found) if found else (made.places, [node.what or node.name])
        for target in targets:
            into[target] = rate
    lag = (flow.figures or {}).get("lag")
    if lag is None and groups:
        lag = sum(scene.groups[each].lag for each in groups)
    made.note = "flow" if lag is None else f"flow · lag {_short(lag)}"
    return made


def _agent(scene: Scene, agent: SeenAgent) -> _Processor:
    parts = agent.parts
    kinds = dict.fromkeys(
        each.component for each in parts if each.kind == "source" and each.component
    )
    groups = agent.groups & scene.groups.keys()
    made = _Processor(
        id=f"agent {agent.name}",
        kind="agent",
        name=agent.name,
        href="#/agents",
        note=" · ".join(["agent", *kinds]),
        groups=groups,
        status="ERR" if agent.problem else _status(scene, groups),
    )
    for part in parts:
        known = [each for each in part.topics if each in scene.topics]
        rate = scene.counted.get(("agent", agent.name, f"{part.kind} {part.name}"))
        if part.kind == "source":
            made.reads |= {each: _read(scene, groups, each) for each in known}
        else:
            made.writes |= dict.fromkeys(known, rate if part.kind == "sink" else None)
        if part.kind == "sink" and not known and part.component not in _NOWHERE:
            made.places[part.place or part.component] = rate
    return made


def _told_by_groups(scene: Scene, folded: set[str]) -> list[_Processor]:
    """Flows that are known by their group alone: they run elsewhere."""
    found = []
    for name, group in scene.groups.items():
        flow = flow_of(name)
        if flow is not None and name not in folded:
            found.append(
                _Processor(
                    id=f"flow {flow} ",
                    kind="flow",
                    name=flow,
                    href=group_href(name),
                    note=f"flow · lag {_short(group.lag)}",
                    groups={name},
                    reads={
                        topic: scene.read.get((name, topic), 0.0)
                        for topic in group.topics
                        if topic in scene.topics
                    },
                    status=str(group.status),
                )
            )
    return found


def _readers(scene: Scene, topics: list[str], folded: set[str]) -> list[GroupLag]:
    shown = set(topics)
    found = [
        each
        for name, each in scene.groups.items()
        if name not in folded and not is_internal_group(name) and shown.intersection(each.topics)
    ]

    def order(group: GroupLag) -> tuple[float, int, str]:
        rate = sum(scene.read.get((group.group, topic), 0.0) for topic in group.topics)
        return -rate, -group.lag, group.group

    return sorted(found, key=order)


def _topics_in(scene: Scene, texts: Iterable[str]) -> list[str]:
    """The topics of this cluster that a graph names."""
    words = (word.strip() for text in texts for word in text.split(","))
    return [each for each in dict.fromkeys(words) if each in scene.topics]


def _read(scene: Scene, groups: Iterable[str], topic: str) -> float | None:
    rates = [scene.read[each, topic] for each in groups if (each, topic) in scene.read]
    return sum(rates) if rates else None


def _status(scene: Scene, groups: Iterable[str]) -> str:
    found = [str(scene.groups[each].status) for each in groups]
    return max(found, key=_WORSE.index, default="")


def _short(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            return f"{number / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{number:,.0f}"


def group_href(name: str) -> str:
    return f"#/groups/{quote(name, safe='')}"


class _Drawing:
    """Nodes and arrows, as they come together."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._nodes: dict[str, dict[str, Any]] = {}
        self._arrows: dict[tuple[str, str], float | None] = {}
        self._written: dict[str, list[str]] = {}

    def add_topics(self, topics: list[str]) -> None:
        for name in topics:
            rate, size = self._scene.topics[name], self._scene.bytes_per_record.get(name, 0.0)
            self._nodes[f"topic {name}"] = {
                "kind": "topic",
                "name": name,
                "href": f"#/topics/{quote(name, safe='')}",
                "note": "topic",
                "bytes": rate * size,
                "status": "",
            }

    def add_processor(self, each: _Processor) -> None:
        reads = {topic: rate for topic, rate in each.reads.items() if self._has(topic)}
        writes = {topic: rate for topic, rate in each.writes.items() if self._has(topic)}
        places = list(each.places.items())[:MOST_PLACES]
        if not reads and not writes and not places:
            return
        self._nodes[each.id] = {
            "kind": each.kind,
            "name": each.name,
            "href": each.href,
            "note": each.note,
            "status": each.status,
        }
        for topic, rate in reads.items():
            self._arrows[f"topic {topic}", each.id] = rate
        for topic, rate in writes.items():
            if (f"topic {topic}", each.id) not in self._arrows:
                self._arrows[each.id, f"topic {topic}"] = rate
            self._written.setdefault(topic, []).append(each.id)
        for place, rate in places:
            target = f"place {each.id} {place}"
            name = place.rstrip("/").rpartition("/")[2] or place
            note = place if name != place else "sink"
            self._nodes[target] = {"kind": "sink", "name": name, "note": note, "status": ""}
            # A sink without figures of its own gets what is read, if only that can be meant.
            (only,) = reads.values() if len(reads) == 1 else (None,)
            self._arrows[each.id, target] = only if rate is None else rate

    def add_group(self, group: GroupLag) -> None:
        name = f"group {group.group}"
        self._nodes[name] = {
            "kind": "group",
            "name": group.group,
            "href": group_href(group.group),
            "note": f"group · lag {_short(group.lag)}",
            "status": str(group.status),
        }
        for topic in group.topics:
            if self._has(topic):
                rate = self._scene.read.get((group.group, topic), 0.0)
                self._arrows[f"topic {topic}", name] = rate

    def add_producers(self, topics: list[str]) -> None:
        """Who writes what nobody claims; what one alone claims to write has the topic's rate."""
        orphans = [each for each in topics if each not in self._written]
        if orphans:
            self._nodes[_PRODUCERS] = {
                "kind": "source",
                "name": _PRODUCERS,
                "note": "clients",
                "status": "",
            }
        for topic in orphans:
            self._arrows[_PRODUCERS, f"topic {topic}"] = self._scene.topics[topic]
        for topic, writers in self._written.items():
            arrow = (writers[0], f"topic {topic}")
            if len(writers) == 1 and arrow in self._arrows:
                self._arrows[arrow] = self._scene.topics[topic]

    def _has(self, topic: str) -> bool:
        return f"topic {topic}" in self._nodes

    def as_json(self) -> dict[str, Any]:
        layout = layered(list(self._nodes), self._arrows)
        return {
            "nodes": self._nodes,
            "layers": layout.layers,
            "arrows": [
                {"path": layout.paths[arrow], "rate": None if rate is None else round(rate, 1)}
                for arrow, rate in self._arrows.items()
            ],
        }
