"""The map of the cluster: sources, topics, flows, groups and sinks, with the rates between them.

Rule 1: a group that belongs to a flow or an agent is drawn as that flow or agent, never twice.
Rule 2: a topic is written by the flows and agents whose status says so; every other topic is
        written by "producers".
Rule 3: the map is bounded: flows and agents come first, then the busiest topics, then groups;
        `more` says how many were left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from headrace.console.internal import is_internal_group, is_internal_topic
from headrace.console.layered_layout import LayeredLayout
from headrace.console.status.agent_status import AgentStatus
from headrace.console.status.flow_status import FlowStatus
from headrace.flow.execution.progress_group import flow_of, group_of
from headrace.lag.report import GroupLag

MOST_TOPICS: Final = 12
MOST_PROCESSORS: Final = 10
MOST_GROUPS: Final = 10
MOST_PLACES: Final = 10
# Sinks of an agent that write to no place a person looks at.
_NOWHERE: Final = frozenset({"logger", "null", "LoggerSink", "NullSink", ""})
_PRODUCERS: Final = "producers"
# How our source, like Spark's own, names the group of a query that sets none.
_SPARK_PREFIX: Final = "spark-kafka-source"
_WORSE: Final = ("OK", "WARN", "REWIND", "STALL", "STOP", "ERR")


@dataclass(frozen=True, slots=True)
class FlowMapInput:
    """What the map is drawn from. Rates are in records per second.

    Attributes:
        topics: the rate written to each topic of the cluster.
        groups: all groups.
        read: the rate that a group commits in a topic.
        written: the rate that a part of a flow or agent writes, by ("flow", name, component) and
            ("agent", name, "sink k1").
        bytes_per_record: of each topic.
    """

    topics: Mapping[str, float]
    groups: Mapping[str, GroupLag] = field(default_factory=dict)
    flows: tuple[FlowStatus, ...] = ()
    agents: tuple[AgentStatus, ...] = ()
    read: Mapping[tuple[str, str], float] = field(default_factory=dict)
    written: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    bytes_per_record: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Processor:
    """A flow or an agent. Rates are None where its status has none.

    Attributes:
        reads: the topics it reads, with rates.
        writes: the topics it writes, with rates.
        places: everything else it writes to, with rates.
        groups: its own consumer groups.
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


def flow_map(data: FlowMapInput) -> dict[str, Any]:
    """Return the map as the page draws it: nodes, their layers, arrows with rates."""
    processors = [*(_flow(data, each) for each in data.flows)]
    processors += [_agent(data, each) for each in data.agents]
    own_groups = {group for each in processors for group in each.groups}
    processors += _flows_elsewhere(data, own_groups)
    processors = [each for each in processors if each.topics or each.places]
    own_groups |= {group for each in processors for group in each.groups}

    processors.sort(key=lambda each: (-_traffic(data, each.topics), each.id))
    shown = processors[:MOST_PROCESSORS]
    touched = {topic for each in shown for topic in each.topics}
    names = [each for each in data.topics if not is_internal_topic(each)]
    names.sort(key=lambda each: (each not in touched, -data.topics[each], each))
    topics = sorted(names[:MOST_TOPICS])
    readers = _readers(data, topics, own_groups)
    drawing = _Drawing(data)
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


def _traffic(data: FlowMapInput, topics: Iterable[str]) -> float:
    return sum(data.topics.get(each, 0.0) for each in topics)


def _flow(data: FlowMapInput, flow: FlowStatus) -> _Processor:
    spouts = [each for each in flow.nodes if each.kind == "spout"]
    reads = _topics_in(data, (each.what for each in spouts))
    groups = {group_of(flow.name), f"{_SPARK_PREFIX}-{','.join(reads)}"} & data.groups.keys()
    processor = _Processor(
        id=f"flow {flow.name} {flow.application or flow.pid or ''}",
        kind="flow",
        name=flow.name,
        href="#/flows",
        note="flow",
        groups=groups,
        reads={topic: _read(data, groups, topic) for topic in reads},
        status="ERR" if flow.problem else _status(data, groups),
    )
    for node in flow.nodes:
        if node.kind != "sink":
            continue
        rate = data.written.get(("flow", flow.name, node.name))
        topics = _topics_in(data, [node.what])
        into = processor.writes if topics else processor.places
        targets = topics or [node.what or node.name]
        for target in targets:
            into[target] = rate
    lag = (flow.figures or {}).get("lag")
    if lag is None and groups:
        lag = sum(data.groups[each].lag for each in groups)
    processor.note = "flow" if lag is None else f"flow · lag {_short(lag)}"
    return processor


def _agent(data: FlowMapInput, agent: AgentStatus) -> _Processor:
    parts = agent.parts
    kinds = dict.fromkeys(
        each.component for each in parts if each.kind == "source" and each.component
    )
    groups = agent.groups & data.groups.keys()
    processor = _Processor(
        id=f"agent {agent.name}",
        kind="agent",
        name=agent.name,
        href="#/agents",
        note=" · ".join(["agent", *kinds]),
        groups=groups,
        status="ERR" if agent.problem else _status(data, groups),
    )
    for part in parts:
        known = [each for each in part.topics if each in data.topics]
        rate = data.written.get(("agent", agent.name, f"{part.kind} {part.name}"))
        if part.kind == "source":
            processor.reads |= {each: _read(data, groups, each) for each in known}
        else:
            processor.writes |= dict.fromkeys(known, rate if part.kind == "sink" else None)
        if part.kind == "sink" and not known and part.component not in _NOWHERE:
            processor.places[part.place or part.component] = rate
    return processor


def _flows_elsewhere(data: FlowMapInput, own_groups: set[str]) -> list[_Processor]:
    """Return the flows that run on another machine: only their groups show them."""
    processors = []
    for name, group in data.groups.items():
        flow = flow_of(name)
        if flow is not None and name not in own_groups:
            processors.append(
                _Processor(
                    id=f"flow {flow} ",
                    kind="flow",
                    name=flow,
                    href=group_href(name),
                    note=f"flow · lag {_short(group.lag)}",
                    groups={name},
                    reads={
                        topic: data.read.get((name, topic), 0.0)
                        for topic in group.topics
                        if topic in data.topics
                    },
                    status=str(group.status),
                )
            )
    return processors


def _readers(data: FlowMapInput, topics: list[str], own_groups: set[str]) -> list[GroupLag]:
    shown = set(topics)
    readers = [
        each
        for name, each in data.groups.items()
        if name not in own_groups
        and not is_internal_group(name)
        and shown.intersection(each.topics)
    ]

    def order(group: GroupLag) -> tuple[float, int, str]:
        rate = sum(data.read.get((group.group, topic), 0.0) for topic in group.topics)
        return -rate, -group.lag, group.group

    return sorted(readers, key=order)


def _topics_in(data: FlowMapInput, texts: Iterable[str]) -> list[str]:
    """Return the topics of this cluster that the texts of a graph name."""
    words = (word.strip() for text in texts for word in text.split(","))
    return [each for each in dict.fromkeys(words) if each in data.topics]


def _read(data: FlowMapInput, groups: Iterable[str], topic: str) -> float | None:
    rates = [data.read[each, topic] for each in groups if (each, topic) in data.read]
    return sum(rates) if rates else None


def _status(data: FlowMapInput, groups: Iterable[str]) -> str:
    statuses = [str(data.groups[each].status) for each in groups]
    return max(statuses, key=_WORSE.index, default="")


def _short(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            return f"{number / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{number:,.0f}"


def group_href(name: str) -> str:
    return f"#/groups/{quote(name, safe='')}"


class _Drawing:
    """Collects the nodes and arrows of the map."""

    def __init__(self, data: FlowMapInput) -> None:
        self._data = data
        self._nodes: dict[str, dict[str, Any]] = {}
        self._arrows: dict[tuple[str, str], float | None] = {}
        self._written: dict[str, list[str]] = {}

    def add_topics(self, topics: list[str]) -> None:
        for name in topics:
            rate, size = self._data.topics[name], self._data.bytes_per_record.get(name, 0.0)
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
            # A sink without a rate of its own gets the rate of the only topic that is read.
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
                rate = self._data.read.get((group.group, topic), 0.0)
                self._arrows[f"topic {topic}", name] = rate

    def add_producers(self, topics: list[str]) -> None:
        """Draw "producers" for topics without a known writer. An arrow from the only writer of a
        topic gets the topic's rate."""
        orphans = [each for each in topics if each not in self._written]
        if orphans:
            self._nodes[_PRODUCERS] = {
                "kind": "source",
                "name": _PRODUCERS,
                "note": "clients",
                "status": "",
            }
        for topic in orphans:
            self._arrows[_PRODUCERS, f"topic {topic}"] = self._data.topics[topic]
        for topic, writers in self._written.items():
            arrow = (writers[0], f"topic {topic}")
            if len(writers) == 1 and arrow in self._arrows:
                self._arrows[arrow] = self._data.topics[topic]

    def _has(self, topic: str) -> bool:
        return f"topic {topic}" in self._nodes

    def as_json(self) -> dict[str, Any]:
        layout = LayeredLayout.of(list(self._nodes), self._arrows)
        return {
            "nodes": self._nodes,
            "layers": layout.layers,
            "arrows": [
                {"path": layout.paths[arrow], "rate": None if rate is None else round(rate, 1)}
                for arrow, rate in self._arrows.items()
            ],
        }
