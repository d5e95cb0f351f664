"""Aggregates that Spark can do itself, in the JVM, with its own state.

Rule 1: the plan is stateless up to one aggregate and stateless behind it: two stages, in the later
        one nothing but the aggregate and what runs where its totals are made.
Rule 2: the aggregate's tasks each see all tuples of their keys, so that tasks do not matter.
Rule 3: Spark has the function; `top` it has not.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.flow.plan.aggregate import Measure
from headrace.flow.plan.grouping import FieldsGrouping, Global, Grouping, PartialKey
from headrace.flow.plan.plan import DEFAULT_STREAM, Component, Kind, Plan
from headrace.flow.plan.stage import Layout, cut
from headrace.flow.runtime.aggregate_stage import (
    LANE,
    LANE_DDL,
    LETTERS,
    AggregateFeed,
    AggregateTail,
    partial_columns,
)
from headrace.flow.runtime.program import Program


def spark_aggregate(plan: Plan, layout: Layout) -> Component | None:
    """The aggregate of a plan that Spark can do itself, if there is one."""
    if len(layout.stages) != 2:
        return None
    carried = [each for each in layout.edges if each.carried]
    if len({each.reader for each in carried}) != 1:
        return None
    component = plan.components[carried[0].reader]
    aggregate = getattr(component.work, "aggregate", None)
    if aggregate is None or any(each.function == "top" for each in aggregate.measures.values()):
        return None
    alone = component.parallelism == 1
    if alone or all(_keeps_keys(each.input.grouping, aggregate.by) for each in carried):
        return component
    return None


def _keeps_keys(grouping: Grouping, by: tuple[str, ...]) -> bool:
    if isinstance(grouping, PartialKey):
        return False
    if isinstance(grouping, FieldsGrouping):
        return set(grouping.names) <= set(by)
    return isinstance(grouping, Global)


def aggregate_frame(
    program: Program, aggregate: Component, spout: Callable[[str, Any, str], Any]
) -> tuple[Any, AggregateTail]:
    """The totals of a plan with such an aggregate, and what makes records of them.

    Args:
        spout: the rows that a stage, with its columns, makes of a spout's, by name.
    """
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    # One task: nobody has to divide the tuples, Spark does.
    alone = {**program.plan.components, aggregate.name: replace(aggregate, parallelism=1)}
    plan = replace(program.plan, components=alone)
    program = replace(program, plan=plan, layout=cut(plan))
    columns = partial_columns(program, aggregate)
    ddl = f"{columns.ddl}, {LANE_DDL}"
    fed = [
        spout(each.name, AggregateFeed(program, each.name, aggregate.name), ddl)
        for each in program.plan.components.values()
        if each.kind is Kind.SPOUT
    ]
    rows = fed[0]
    for each in fed[1:]:
        rows = rows.unionAll(each)
    outputs = aggregate.outputs[DEFAULT_STREAM]
    totals = [
        _total(number, each).cast(outputs.ddl_of(name)).alias(name)
        for number, (name, each) in enumerate(columns.measures.items())
    ]
    summed = rows.groupBy(*columns.by, LANE).agg(
        *totals, F.last(LETTERS, ignorenulls=True).alias(LETTERS)
    )
    return summed, AggregateTail(program, aggregate.name)


def _total(number: int, measure: Measure) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    match measure.function:
        case "count" | "sum":
            return F.sum(f"_p{number}")
        case "min":
            return F.min(f"_p{number}")
        case "max":
            return F.max(f"_p{number}")
        case "mean":
            return F.try_divide(F.sum(f"_p{number}"), F.sum(f"_q{number}"))
        case "distinct":
            return F.size(F.collect_set(f"_d{number}"))
        case _:
            return F.approx_count_distinct(f"_d{number}")
