"""Built-in combiners: what a bolt need not be written for, and Spark can do itself.

`Aggregate` only says what is wanted. `compile` makes Spark's own aggregates of it where the plan
allows (`spark_aggregate`); anywhere else `runtime.combiner` keeps the totals in a task's state.
Both emit, once a batch, the new totals of every key that came.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM, Component
from headrace.flow.plan.select import Select

FUNCTIONS = ("count", "sum", "min", "max", "mean", "top", "distinct", "approx_distinct")
_MEASURE = re.compile(r"\s*([a-z_]+)\s*(?:\(\s*(\w*)\s*(?:,\s*(\d+)\s*)?\))?\s*")
_MAX_TOP = 10_000


@dataclass(frozen=True, slots=True)
class Measure:
    """One total: a function, the field it looks at, and for `top` how many."""

    function: str
    field: str | None
    limit: int = 0

    @classmethod
    def parse(cls, text: str, name: str) -> "Measure":
        """A measure of its text: count, sum(ms), top(ms, 3).

        Raises:
            FlowError: it is not one.
        """
        found = _MEASURE.fullmatch(text)
        if found is None or found[1] not in FUNCTIONS:
            raise FlowError(
                f"the measure {name} cannot be {text!r}: write one of {', '.join(FUNCTIONS)},"
                " such as mean(ms) or top(ms, 3)"
            )
        function, field, limit = found[1], found[2] or None, int(found[3] or 0)
        if (field is None) != (function == "count"):
            needs = "counts tuples and takes no field" if function == "count" else "needs a field"
            raise FlowError(f"the measure {name} is {text!r}, but {function} {needs}")
        if (function == "top") != (limit > 0) or limit > _MAX_TOP:
            raise FlowError(
                f"the measure {name} is {text!r}: top alone takes a number, from 1 to {_MAX_TOP}"
            )
        return cls(function, field, limit)

    def ddl(self, fields: Fields, name: str) -> str:
        """The type of the total."""
        if self.field is None or self.function in ("distinct", "approx_distinct"):
            return "BIGINT"
        kind = fields.schema.field(self.field).type
        if self.function in ("sum", "mean") and not _is_number(kind):
            raise FlowError(f"the measure {name} needs a number, but {self.field} is {kind}")
        if self.function == "mean":
            return "DOUBLE"
        if self.function == "sum":
            return "BIGINT" if pa.types.is_integer(kind) else "DOUBLE"
        own = fields.ddl_of(self.field)
        return f"ARRAY<{own}>" if self.function == "top" else own


class Aggregate:
    """Totals by key. Declare it like a bolt, without `output`: the fields follow from the input.

    Args:
        by: the fields of the key; none: one total of everything.
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
        """The fields of its totals over tuples with these fields.

        Raises:
            FlowError: a field that is not there, or of a type that has no such total.
        """
        named = [each.field for each in self.measures.values() if each.field is not None]
        fields.check_known([*self.by, *named], f"the aggregate {who}")
        columns = [f"{name} {fields.ddl_of(name)}" for name in self.by]
        columns += [f"{name} {each.ddl(fields, name)}" for name, each in self.measures.items()]
        return Fields.parse(", ".join(columns))


def with_outputs(components: Mapping[str, Component]) -> dict[str, Component]:
    """The components, each aggregate and each `Select` without an output with the fields that
    follow from what it reads."""
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
            made = _undeclared(component).output(feeder.outputs[first.stream], name)
            done[name] = replace(component, outputs={DEFAULT_STREAM: made})
            left.remove(name)
        if len(left) == before:
            break  # a mistake of another kind, which `check` tells
    return done


def _is_undeclared(component: Component) -> bool:
    return bool(component.inputs and not component.outputs and _undeclared(component) is not None)


def _undeclared(component: Component) -> Any:
    """What can tell a component's fields, if anything does."""
    found = getattr(component.work, "aggregate", None)
    if isinstance(component.work, Select) and not component.work.columns:
        return component.work
    return found


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
