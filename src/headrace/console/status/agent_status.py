"""The status of an agent, from its monitor: counters, and for a Headrace agent how its parts are
connected. Flume's own agents serve counters only."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.console.status.fetch_json import fetch_json
from headrace.ingest.agent.wiring import CHANNELS, COMPONENT, GROUP, PLACE, TOPICS

_KINDS: Final = ("SOURCE", "CHANNEL", "SINK")
_MOST_PARTS: Final = 200
_MOST_NAMES: Final = 100
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class AgentPart:
    """A source, channel or sink. Texts that the agent does not serve are empty."""

    kind: str
    name: str
    numbers: dict[str, float]
    component: str = ""
    channels: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    group: str = ""
    place: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "numbers": self.numbers,
            "component": self.component,
            "channels": self.channels,
            "topics": self.topics,
            "group": self.group,
            "place": self.place,
        }


@dataclass(frozen=True, slots=True)
class AgentStatus:
    name: str
    url: str
    problem: str | None = None
    parts: tuple[AgentPart, ...] = field(default=())

    @property
    def groups(self) -> set[str]:
        return {each.group for each in self.parts if each.group}

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "url": self.url,
            "problem": self.problem,
            "parts": [each.as_json() for each in self.parts],
        }


def fetch_agent_status(name: str, url: str) -> AgentStatus:
    """Return the status of an agent, or one whose `problem` says why it could not be fetched."""
    try:
        served = fetch_json(url)
    except OSError as error:
        return AgentStatus(name, url, str(error))
    parts = []
    for label, numbers in list(served.items())[:_MOST_PARTS]:
        kind, _, part = str(label).partition(".")
        if kind in _KINDS and isinstance(numbers, dict):
            parts.append(_part(kind.lower(), part, numbers))
    return AgentStatus(name, url, None, tuple(parts))


def _part(kind: str, name: str, served: dict[str, Any]) -> AgentPart:
    def text(key: str) -> str:
        return str(served.get(key) or "")[:_LONGEST]

    def names(key: str) -> tuple[str, ...]:
        return tuple(str(served.get(key) or "").split()[:_MOST_NAMES])

    return AgentPart(
        kind,
        name[:_LONGEST],
        _numbers(served),
        component=text(COMPONENT),
        channels=names(CHANNELS),
        topics=names(TOPICS),
        group=text(GROUP),
        place=text(PLACE),
    )


def _numbers(texts: dict[str, Any]) -> dict[str, float]:
    """Parse the numbers, which Flume serves as texts; other texts are left out."""
    numbers = {}
    for name, text in texts.items():
        try:
            number = float(text)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            numbers[str(name)[:_LONGEST]] = number
    return numbers
