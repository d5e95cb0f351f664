"""An agent, as its monitor tells: numbers, and how the parts hang together if it is one of ours."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.console.neighbour import fetch_json
from headrace.ingest.agent.wiring import CHANNELS, COMPONENT, GROUP, PLACE, TOPICS

_KINDS: Final = ("SOURCE", "CHANNEL", "SINK")
_MOST_PARTS: Final = 200
_MOST_NAMES: Final = 100
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class AgentPart:
    """A source, channel or sink. Texts are empty where the agent does not tell them."""

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
class SeenAgent:
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


def look_at_agent(name: str, url: str) -> SeenAgent:
    try:
        told = fetch_json(url)
    except OSError as error:
        return SeenAgent(name, url, str(error))
    parts = []
    for place, numbers in list(told.items())[:_MOST_PARTS]:
        kind, _, part = str(place).partition(".")
        if kind in _KINDS and isinstance(numbers, dict):
            parts.append(_part(kind.lower(), part, numbers))
    return SeenAgent(name, url, None, tuple(parts))


def _part(kind: str, name: str, told: dict[str, Any]) -> AgentPart:
    def text(key: str) -> str:
        return str(told.get(key) or "")[:_LONGEST]

    def words(key: str) -> tuple[str, ...]:
        return tuple(str(told.get(key) or "").split()[:_MOST_NAMES])

    return AgentPart(
        kind,
        name[:_LONGEST],
        _numbers(told),
        component=text(COMPONENT),
        channels=words(CHANNELS),
        topics=words(TOPICS),
        group=text(GROUP),
        place=text(PLACE),
    )


def _numbers(texts: dict[str, Any]) -> dict[str, float]:
    """Flume serves every number as a text."""
    found = {}
    for name, text in texts.items():
        try:
            number = float(text)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            found[str(name)[:_LONGEST]] = number
    return found
