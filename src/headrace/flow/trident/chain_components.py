"""The components of a chain, in the order in which its operations added them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM, Input, Kind, PlanComponent
from headrace.flow.plan.work import Work
from headrace.flow.storm.spout import Spout


class ChainComponents:
    """Components by name. A `TridentTopology` and all of its streams share one."""

    def __init__(self) -> None:
        self._components: dict[str, PlanComponent] = {}

    @property
    def by_name(self) -> Mapping[str, PlanComponent]:
        return self._components

    def add_spout(self, name: str, spout: Spout, topology: str) -> None:
        """Add a spout under the name that the user chose.

        Raises:
            FlowError: the name is taken.
        """
        if name in self._components:
            raise FlowError(f"{topology} has two streams called {name!r}")
        outputs = {DEFAULT_STREAM: spout.fields}
        self._components[name] = PlanComponent(name, Kind.SPOUT, spout, outputs)

    def add(
        self,
        label: str,
        work: Work,
        fields: Fields | Mapping[str, Fields] | None,
        inputs: tuple[Input, ...],
        *,
        kind: Kind = Kind.BOLT,
        **more: Any,
    ) -> str:
        """Add an operation, and return its name: the label and a number.

        Args:
            fields: of what it emits; of each stream, if it has several.
        """
        number = 1 + sum(1 for each in self._components if each.rpartition("-")[0] == label)
        name = f"{label}-{number}"
        outputs = {DEFAULT_STREAM: fields} if isinstance(fields, Fields) else fields or {}
        self._components[name] = PlanComponent(name, kind, work, outputs, inputs, **more)
        return name

    def get(self, name: str) -> PlanComponent:
        return self._components[name]

    def change(self, name: str, **changes: Any) -> None:
        self._components[name] = replace(self._components[name], **changes)
