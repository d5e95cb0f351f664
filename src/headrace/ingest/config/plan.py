"""A configuration after reading: which components there are and how they hang together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.config.properties import PropertyEntry


class Severity(Enum):
    """An error leaves a component out; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where.

    Attributes:
        line: of the configuration file, or 0 when the trouble is something that is not there.
    """

    line: int
    severity: Severity
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{self.severity.value}: {where}{self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlan:
    """One component as written.

    Attributes:
        kind: as in `registry.BASES`.
        entries: its settings without its own prefix, `type` and wiring.
        line: where its type stands.
    """

    kind: str
    name: str
    type: str
    line: int
    entries: Mapping[str, PropertyEntry]

    def line_of(self, key: str) -> int:
        entry = self.entries.get(key)
        return self.line if entry is None else entry.line

    def same_as(self, other: "ComponentPlan") -> bool:
        """Whether both ask for the same, wherever it stands in the file."""

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
    """Everything of one agent, by name.

    Attributes:
        audit: what holds for all parts that count for the audit, unless they say otherwise.
        idle: components that cannot run for want of a channel. Only what else is wrong with them
            is of interest, so that a user hears of everything at once.
    """

    name: str
    sources: Mapping[str, SourcePlan] = field(default_factory=dict)
    channels: Mapping[str, ComponentPlan] = field(default_factory=dict)
    sinks: Mapping[str, SinkPlan] = field(default_factory=dict)
    groups: Mapping[str, GroupPlan] = field(default_factory=dict)
    audit: Mapping[str, PropertyEntry] = field(default_factory=dict)
    idle: tuple[ComponentPlan, ...] = ()
