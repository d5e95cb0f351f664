"""The plan of an agent: the components of a configuration and their connections."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from headrace.config.properties import PropertyEntry


class Severity(Enum):
    """How bad a problem is: an error leaves a component out, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration.

    Attributes:
        line: the line of the file, or 0 if something is missing.
    """

    line: int
    severity: Severity
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{self.severity.value}: {where}{self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlan:
    """One component as the file describes it.

    Attributes:
        kind: a key of `component_type.BASES`.
        entries: its settings without its prefix, its `type` and its channels.
        line: the line of its type.
    """

    kind: str
    name: str
    type: str
    line: int
    entries: Mapping[str, PropertyEntry]

    def line_of(self, key: str) -> int:
        entry = self.entries.get(key)
        return self.line if entry is None else entry.line

    def without(self, key: str | None) -> "ComponentPlan":
        """Return it without a setting."""
        return replace(self, entries={name: at for name, at in self.entries.items() if name != key})

    def same_as(self, other: "ComponentPlan") -> bool:
        """Return whether both have the same type and settings, on whatever lines."""

        def values(plan: ComponentPlan) -> dict[str, str]:
            return {key: entry.value for key, entry in plan.entries.items()}

        return self.type.lower() == other.type.lower() and values(self) == values(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    component: ComponentPlan
    channels: tuple[str, ...]
    interceptors: tuple[ComponentPlan, ...]
    selector: ComponentPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    component: ComponentPlan
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    name: str
    sinks: tuple[str, ...]
    processor: ComponentPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """The components of one agent, by name.

    Attributes:
        audit: the defaults of all components that count for the audit.
        idle: components that cannot run without a channel. They are only checked for other
            mistakes, so that a user sees all mistakes at once.
    """

    name: str
    sources: Mapping[str, SourcePlan] = field(default_factory=dict)
    channels: Mapping[str, ComponentPlan] = field(default_factory=dict)
    sinks: Mapping[str, SinkPlan] = field(default_factory=dict)
    groups: Mapping[str, GroupPlan] = field(default_factory=dict)
    audit: Mapping[str, PropertyEntry] = field(default_factory=dict)
    idle: tuple[ComponentPlan, ...] = ()
