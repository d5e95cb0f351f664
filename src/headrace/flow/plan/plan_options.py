"""What a program says about itself as a whole, however its components are declared."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from headrace.flow.error import FlowError
from headrace.flow.plan.aggregate import with_outputs
from headrace.flow.plan.plan import Guarantee, Latency, Plan, PlanComponent
from headrace.flow.plan.setting import check_settings

_Choice = TypeVar("_Choice", bound=Enum)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of a plan; see `Plan` and `Topology` for their meaning."""

    name: str
    guarantee: Guarantee
    dead_letters: str | None
    retries: int
    settings: Mapping[str, str]
    latency: Latency

    @classmethod
    def of(
        cls,
        name: str,
        *,
        guarantee: str | Guarantee,
        dead_letters: str | None,
        retries: int,
        settings: Mapping[str, str] | None,
        latency: str | Latency = Latency.MICRO_BATCH,
    ) -> "PlanOptions":
        """Return the options as a user writes them.

        Args:
            dead_letters: an empty text stands for a topic that is called after the program.

        Raises:
            FlowError: there is no such guarantee, latency or setting.
        """
        check_settings(settings or ())
        return cls(
            name=name,
            guarantee=_choice(Guarantee, guarantee, "guarantee"),
            dead_letters=f"{name}-dead-letters" if dead_letters == "" else dead_letters,
            retries=retries,
            settings=dict(settings or {}),
            latency=_choice(Latency, latency, "latency"),
        )

    def plan(self, components: Mapping[str, PlanComponent]) -> Plan:
        """Return the plan of these components, with the outputs that follow from their inputs."""
        return Plan(
            name=self.name,
            components=with_outputs(components),
            guarantee=self.guarantee,
            dead_letters=self.dead_letters,
            retries=self.retries,
            settings=dict(self.settings),
            latency=self.latency,
        )


def _choice(kind: type[_Choice], given: Any, name: str) -> _Choice:
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise FlowError(f"a {name} cannot be {given!r}: write {known}") from None
