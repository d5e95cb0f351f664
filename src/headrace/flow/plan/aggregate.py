"""Built-in totals by key, such as counts and sums, for which no bolt need be written.

`Aggregate` only declares the totals. `compile` makes Spark's own aggregates of them where the plan
allows it (`spark_aggregate`); elsewhere `runtime.builtin.aggregate_work` keeps them in a task's
state. Both emit, once per batch, the new totals of every key that the batch had.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM, PlanComponent
from headrace.flow.plan.select import Select

FUNCTIONS = ("count", "sum", "min", "max", "mean", "top", "distinct", "approx_distinct")
_MEASURE = re.compile(r"\s*([a-z_]+)\s*(?:\(\s*(\w*)\s*(?:,\s*(\d+)\s*)?\))?\s*")
_MAX_TOP = 10_000


@dataclass(frozen=True, slots=True)
class Measure:
    """One total: a function, the field that it reads, and for `top` how many values."""

    function: str
    field: str | None
    limit: int = 0

    @classmethod
    def parse(cls, text: str, name: str) -> "Measure":
        """Return the measure that a text declares: count, sum(ms), top(ms, 3).

        Raises:
            FlowError: the text is no measure.
        """
        match = _MEASURE.fullmatch(text)
        if match is None or match[1] not in FUNCTIONS:
            raise FlowError(
                f"the measure {name} cannot be {text!r}: write one of {', '.join(FUNCTIONS)},"
                " such as mean(ms) or top(ms, 3)"
            )
        function, field, limit = match[1], match[2] or None, int(match[3] or 0)
        if (field is None) != (function == "count"):
            needs = "counts tuples and takes no field" if function == "count" else "needs a field"
            raise FlowError(f"the measure {name} is {text!r}, but {function} {needs}")
        if (function == "top") != (limit > 0) or limit > _MAX_TOP:
            raise FlowError(
                f"the measure {name} is {text!r}: top alone takes a number, from 1 to {_MAX_TOP}"
            )
        return cls(function, field, limit)

    def ddl(self, fields: Fields, name: str) -> str:
        """Return the type of the total over tuples with these fields."""
        if self.field is None or self.function in ("distinct", "approx_distinct"):
            return "BIGINT"
        kind = fields.schema.field(self.field).type
        if self.function in ("sum", "mean") and not _is_number(kind):
            raise FlowError(f"the measure {name} needs a number, but {self.field} is {kind}")
        if self.function == "mean":
            return "DOUBLE"
        if self.function == "sum":
            return "BIGINT" if pa.types.is_integer(kind) else "DOUBLE"
        ddl = fields.ddl_of(self.field)
        return f"ARRAY<{ddl}>" if self.function == "top" else ddl


class Aggregate:
    """Totals by key. Declare it like a bolt, without `output`: the fields follow from the input.

    Args:
        by: the fields of the key; none: one total over all tuples.
        measures: the totals by name: count, sum(f), min(f), max(f), mean(f), top(f, n),
            distinct(f), approx_distinct(f).

    Example:
        topology.bolt("pages", Aggregate("page", views="count", slowest="max(ms)")).fields(
            "views", "page"
        )
    """

    stateful = True

    def __init__(self, by: str | Sequence[str] = (), **measures: str) -> None:
        self.by = (by,) if isinstance(by, str) else tuple(by)
        self.measures = {name: Measure.parse(text, name) for name, text in measures.items()}
        if not self.measures:
            raise FlowError("an aggregate needs a measure, such as n='count'")
        for name in self.measures:
            if name in self.by:
                raise FlowError(f"an aggregate cannot have the measure {name}: its key has it")

    def output(self, fields: Fields, who: str) -> Fields:
        """Return the fields of the key and the totals over tuples with these fields.

        Raises:
            FlowError: a field is missing, or its type has no such total.
        """
        named = [each.field for each in self.measures.values() if each.field is not None]
        fields.check_known([*self.by, *named], f"the aggregate {who}")
        columns = [f"{name} {fields.ddl_of(name)}" for name in self.by]
        columns += [f"{name} {each.ddl(fields, name)}" for name, each in self.measures.items()]
        return Fields.parse(", ".join(columns))


def with_outputs(components: Mapping[str, PlanComponent]) -> dict[str, PlanComponent]:
    """Return the components with the outputs of every `Aggregate` and of every `Select` that
    declares none: they follow from what it reads."""
    done = dict(components)
    left = [name for name, each in done.items() if _is_undeclared(each)]
    while left:
        before = len(left)
        for name in list(left):
            component = done[name]
            first = component.inputs[0]
            feeder = done.get(first.component)
            if feeder is None or first.component in left or first.stream not in feeder.outputs:
                continue
            fields = _declaration(component).output(feeder.outputs[first.stream], name)
            done[name] = replace(component, outputs={DEFAULT_STREAM: fields})
            left.remove(name)
        if len(left) == before:
            break  # a mistake of another kind, which `check_plan` reports
    return done


def _is_undeclared(component: PlanComponent) -> bool:
    return bool(component.inputs and not component.outputs and _declaration(component) is not None)


def _declaration(component: PlanComponent) -> Any:
    """Return the `Aggregate` or `Select` that knows a component's output; None if none does."""
    if isinstance(component.work, Select) and not component.work.columns:
        return component.work
    return getattr(component.work, "aggregate", None)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
