"""Aggregates that Spark computes itself, in the JVM, with its own state.

Rule 1: the plan is stateless before one aggregate and after it: two stages, and the later one has
        only the aggregate and what runs where its totals are made.
Rule 2: each task of the aggregate sees all tuples of its keys, so that Spark's partitions can
        replace the tasks.
Rule 3: Spark has the function; it has no `top`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.flow.plan.aggregate import Measure
from headrace.flow.plan.grouping import FieldsGrouping, Global, Grouping, PartialKey
from headrace.flow.plan.plan import DEFAULT_STREAM, Kind, Plan, PlanComponent
from headrace.flow.plan.stage import StageLayout, stage_layout
from headrace.flow.runtime.aggregate_stage import (
    PASS_DDL,
    PASS_KEY,
    PASS_RECORDS,
    AggregateFeed,
    AggregateTail,
    partial_columns,
)
from headrace.flow.runtime.plan_run import PlanRun


def spark_aggregate(plan: Plan, layout: StageLayout) -> PlanComponent | None:
    """Return the aggregate of a plan that Spark can compute itself; None if there is none."""
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
    plan_run: PlanRun, aggregate: PlanComponent, spout: Callable[[str, Any, str], Any]
) -> tuple[Any, AggregateTail]:
    """Return the totals of a plan with such an aggregate, and what makes records of them.

    Args:
        spout: returns the rows of a spout, by name, after a stage with the columns of a DDL.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    # One task: Spark divides the tuples between its partitions, not the grouping.
    alone = {**plan_run.plan.components, aggregate.name: replace(aggregate, parallelism=1)}
    plan = replace(plan_run.plan, components=alone)
    plan_run = replace(plan_run, plan=plan, layout=stage_layout(plan))
    columns = partial_columns(plan_run, aggregate)
    ddl = f"{columns.ddl}, {PASS_DDL}"
    fed = [
        spout(each.name, AggregateFeed(plan_run, each.name, aggregate.name), ddl)
        for each in plan_run.plan.components.values()
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
    summed = rows.groupBy(*columns.by, PASS_KEY).agg(
        *totals, F.last(PASS_RECORDS, ignorenulls=True).alias(PASS_RECORDS)
    )
    return summed, AggregateTail(plan_run, aggregate.name)


def _total(number: int, measure: Measure) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

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
