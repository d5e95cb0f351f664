"""Reads the plan of an agent from the entries of a properties file.

The grammar is Flume's:

    A.sources = r1 r2                        lists are separated by white space
    A.sources.r1.type = netcat
    A.sources.r1.channels = c1 c2
    A.sources.r1.interceptors = i1
    A.sources.r1.interceptors.i1.type = host
    A.sources.r1.selector.type = multiplexing
    A.channels.c1.type = memory
    A.sinks.k1.channel = c1
    A.sinkgroups.g1.sinks = k1 k2
    A.sinkgroups.g1.processor.type = failover

and one line of our own, which Flume ignores: `A.audit = on` (also `A.audit.bucketMs`,
`A.audit.topic`) is the default of every component that can count for the audit.

As in Flume a component with a mistake is left out, with an error, and the others run. The types are
not checked here; `assembly` does that.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import TypeVar

from headrace.config.properties import PropertyEntry
from headrace.ingest.config.plan import (
    AgentPlan,
    ComponentPlan,
    GroupPlan,
    Problem,
    Severity,
    SinkPlan,
    SourcePlan,
)
from headrace.model.error import ConfigError

_Plan = TypeVar("_Plan")
_SECTIONS = ("sources", "channels", "sinks", "sinkgroups")
_AUDIT = ("audit", "audit.bucketMs", "audit.topic")
_SINGULAR = {
    "sources": "source",
    "channels": "channel",
    "sinks": "sink",
    "sinkgroups": "sink group",
}


def agent_names(entries: Mapping[str, PropertyEntry]) -> list[str]:
    """Return the agents that a file describes, in order.

    >>> agent_names({"a1.sources": PropertyEntry("r1", 1), "a2.sinks": PropertyEntry("k1", 2)})
    ['a1', 'a2']
    """
    return list(dict.fromkeys(key.partition(".")[0] for key in entries if "." in key))


def plan_agent(entries: Mapping[str, PropertyEntry], agent: str) -> tuple[AgentPlan, list[Problem]]:
    """Return the plan of one agent, and the mistakes in its structure.

    Raises:
        ConfigError: the file does not describe this agent.
    """
    own = _below(entries, agent)
    if not own:
        names = agent_names(entries)
        there = f"it describes {', '.join(names)}" if names else "it describes no agent"
        raise ConfigError(f"there is no agent called {agent} in the configuration: {there}")
    reader = _PlanReader(agent, own)
    return reader.plan(), sorted(reader.problems, key=lambda problem: problem.line)


def _below(entries: Mapping[str, PropertyEntry], prefix: str) -> dict[str, PropertyEntry]:
    start = f"{prefix}."
    return {
        key.removeprefix(start): entry for key, entry in entries.items() if key.startswith(start)
    }


class _PlanReader:
    """Reads the entries of one agent, and collects their mistakes in `problems`."""

    def __init__(self, agent: str, entries: Mapping[str, PropertyEntry]) -> None:
        self.problems: list[Problem] = []
        self._idle: list[ComponentPlan] = []
        self._agent = agent
        self._entries = entries

    def plan(self) -> AgentPlan:
        self._check_sections()
        channels = self._section(
            "channels", lambda name, own: self._component("channel", name, own)
        )
        if not channels:
            self._error(0, f"agent {self._agent} has no channel: write {self._agent}.channels = c1")
        sources = self._section("sources", lambda name, own: self._source(name, own, channels))
        sinks = self._section("sinks", lambda name, own: self._sink(name, own, channels))
        if not any(self._entries.get(each, _NOTHING).value for each in ("sources", "sinks")):
            self._error(0, f"agent {self._agent} has neither a source nor a sink: nothing to do")
        groups_of_sinks: dict[str, str] = {}
        groups = self._section(
            "sinkgroups", lambda name, own: self._group(name, own, sinks, groups_of_sinks)
        )
        self._check_ends(channels, sources, sinks)
        return AgentPlan(
            name=self._agent,
            sources=sources,
            channels=channels,
            sinks=sinks,
            groups=groups,
            audit={key: each for key, each in self._entries.items() if key in _AUDIT},
            idle=tuple(self._idle),
        )

    def _error(self, line: int, message: str) -> None:
        self.problems.append(Problem(line, Severity.ERROR, message))

    def _warn(self, line: int, message: str) -> None:
        self.problems.append(Problem(line, Severity.WARNING, message))

    def _check_sections(self) -> None:
        """Warn about keys outside of the four sections, and about components that are not
        listed."""
        listed = {
            section: set(self._entries[section].value.split())
            for section in _SECTIONS
            if section in self._entries
        }
        warned: set[tuple[str, str]] = set()
        for key, entry in self._entries.items():
            section, _, rest = key.partition(".")
            name = rest.partition(".")[0]
            if key in _AUDIT:
                continue
            if section not in _SECTIONS:
                near = difflib.get_close_matches(section, _SECTIONS, n=1)
                hint = f"did you mean {near[0]}?" if near else f"write {', '.join(_SECTIONS)}"
                self._warn(entry.line, f"{self._agent}.{key} has no effect: {hint}")
            elif rest and name not in listed.get(section, ()) and (section, name) not in warned:
                warned.add((section, name))
                self._warn(
                    entry.line,
                    f"{_SINGULAR[section]} {name} is described and does not run: add it to "
                    f"{self._agent}.{section}",
                )

    def _section(
        self, section: str, read: Callable[[str, dict[str, PropertyEntry]], _Plan | None]
    ) -> dict[str, _Plan]:
        names = self._entries[section].value.split() if section in self._entries else []
        plans: dict[str, _Plan] = {}
        for name in names:
            own = _below(self._entries, f"{section}.{name}")
            if name in plans:
                continue
            if not own:
                line = self._entries[section].line
                what = f"{_SINGULAR[section]} {name} is listed and not described"
                self._error(line, f"{what}: write {self._agent}.{section}.{name}.type")
                continue
            plan = read(name, own)
            if plan is not None:
                plans[name] = plan
        return plans

    def _component(
        self,
        kind: str,
        name: str,
        own: Mapping[str, PropertyEntry],
        leave_out: tuple[str, ...] = (),
        default: str | None = None,
    ) -> ComponentPlan | None:
        entry = own.get("type")
        if entry is None and default is None:
            line = next(iter(own.values())).line
            self._error(line, f"{kind} {name} has no type: write one, such as {_EXAMPLES[kind]}")
            return None
        sections = tuple(f"{word}." for word in leave_out)
        settings = {
            key: each
            for key, each in own.items()
            if key != "type" and key not in leave_out and not key.startswith(sections)
        }
        if entry is None:
            assert default is not None
            line = next((each.line for each in own.values()), 0)
            entry = PropertyEntry(default, line)
        return ComponentPlan(
            kind=kind, name=name, type=entry.value.strip(), line=entry.line, entries=settings
        )

    def _source(
        self, name: str, own: dict[str, PropertyEntry], channels: Mapping[str, ComponentPlan]
    ) -> SourcePlan | None:
        component = self._component("source", name, own, ("channels", "interceptors", "selector"))
        connected = self._connected_channels("source", name, own, "channels", channels)
        if component is None or not connected:
            self._idle += [*filter(None, [component]), *self._interceptors(own)]
            return None
        selector = self._component("selector", name, _below(own, "selector"), (), "replicating")
        assert selector is not None
        return SourcePlan(
            component=component,
            channels=connected,
            interceptors=self._interceptors(own),
            selector=selector,
        )

    def _interceptors(self, own: Mapping[str, PropertyEntry]) -> tuple[ComponentPlan, ...]:
        listed = own.get("interceptors")
        plans = []
        for name in listed.value.split() if listed else ():
            entries = _below(own, f"interceptors.{name}")
            if not entries:
                assert listed is not None
                self._error(listed.line, f"interceptor {name} is listed and not described")
                continue
            component = self._component("interceptor", name, entries)
            if component is not None:
                plans.append(component)
        return tuple(plans)

    def _connected_channels(
        self,
        kind: str,
        name: str,
        own: Mapping[str, PropertyEntry],
        key: str,
        channels: Mapping[str, ComponentPlan],
    ) -> tuple[str, ...]:
        """Return the channels that a source or sink names, without unusable ones."""
        entry = own.get(key)
        if entry is None or not entry.value.split():
            line = next(iter(own.values())).line
            other = "channels" if key == "channel" else "channel"
            hint = f" (a {kind} has {key!r}, not {other!r})" if other in own else ""
            self._error(line, f"{kind} {name} has no {key}: write which it uses{hint}")
            return ()
        names = entry.value.split()
        for missing in (each for each in names if each not in channels):
            there = ", ".join(channels) or "none"
            self._error(
                entry.line,
                f"{kind} {name} names channel {missing}, which cannot be used or is not in "
                f"{self._agent}.channels (usable: {there})",
            )
        return tuple(dict.fromkeys(each for each in names if each in channels))

    def _sink(
        self, name: str, own: dict[str, PropertyEntry], channels: Mapping[str, ComponentPlan]
    ) -> SinkPlan | None:
        component = self._component("sink", name, own, ("channel",))
        connected = self._connected_channels("sink", name, own, "channel", channels)
        if len(connected) > 1:
            self._error(
                own["channel"].line,
                f"sink {name} names {len(connected)} channels and can read from one: "
                "use one sink each",
            )
        if component is None or len(connected) != 1:
            self._idle += filter(None, [component])
            return None
        return SinkPlan(component=component, channel=connected[0])

    def _group(
        self,
        name: str,
        own: dict[str, PropertyEntry],
        sinks: Mapping[str, SinkPlan],
        groups_of_sinks: dict[str, str],
    ) -> GroupPlan | None:
        listed = own.get("sinks")
        line = next(iter(own.values())).line if listed is None else listed.line
        members = []
        for sink in listed.value.split() if listed else ():
            if sink not in sinks:
                self._error(line, f"sink group {name} names sink {sink}, which cannot be used")
            elif sink in groups_of_sinks:
                self._error(
                    line, f"sink {sink} is in group {groups_of_sinks[sink]} already, not in {name}"
                )
            else:
                groups_of_sinks[sink] = name
                members.append(sink)
        if not members:
            self._error(line, f"sink group {name} has no sinks: write its sinks = k1 k2")
            return None
        processor = self._component("processor", name, _below(own, "processor"), (), "default")
        assert processor is not None
        return GroupPlan(name=name, sinks=tuple(members), processor=processor)

    def _check_ends(
        self,
        channels: Mapping[str, ComponentPlan],
        sources: Mapping[str, SourcePlan],
        sinks: Mapping[str, SinkPlan],
    ) -> None:
        filled = {name for source in sources.values() for name in source.channels}
        drained = {sink.channel for sink in sinks.values()}
        for name, channel in channels.items():
            # Another agent, or any Kafka client, may be the other end of a Kafka channel.
            if "kafka" in channel.type.lower():
                continue
            if name not in drained:
                self._warn(channel.line, f"no sink reads from channel {name}: it will fill up")
            if name not in filled:
                self._warn(channel.line, f"no source writes to channel {name}: nothing comes out")


_NOTHING = PropertyEntry("", 0)
_EXAMPLES = {
    "source": "netcat, TAILDIR or avro",
    "channel": "memory, file or kafka",
    "sink": "logger, kafka or hdfs",
    "interceptor": "timestamp or host",
    "selector": "replicating or multiplexing",
    "processor": "failover or load_balance",
}
