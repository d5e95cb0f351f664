"""The fold that an aggregator or measures stand for, and the fields of its results."""

from headrace.flow.error import FlowError
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import Work
from headrace.flow.runtime.builtin.aggregate_work import AggregateWork
from headrace.flow.trident.aggregator import AnyAggregator
from headrace.flow.trident.fold_work import FoldWork


def fold_of(
    fields: Fields,
    by: tuple[str, ...],
    aggregator: AnyAggregator | None,
    inputs: tuple[str, ...],
    output: str | None,
    measures: dict[str, str],
) -> tuple[Work, Fields]:
    """Return the fold of a stream with these fields, and the fields of its results.

    Args:
        by: the fields of the key.
        inputs: the fields that the aggregator is called with.
        output: the fields that the aggregator returns.
        measures: the totals of an `Aggregate`, in place of an aggregator.

    Raises:
        FlowError: there must be either an aggregator, with its output, or measures.
    """
    if (aggregator is None) == (not measures):
        raise FlowError("an aggregate takes an aggregator, or measures such as n='count'")
    if aggregator is None:
        aggregate = Aggregate(by, **measures)
        return AggregateWork(aggregate), aggregate.output(fields, "of the stream")
    if isinstance(aggregator, type):
        raise FlowError(f"give an object, {aggregator.__name__}(), not the class")
    if output is None:
        raise FlowError(f"{type(aggregator).__name__} needs output='name TYPE, ...'")
    result = Fields.parse(output)
    fields.check_known(inputs, type(aggregator).__name__)
    columns = [f"{each} {fields.ddl_of(each)}" for each in by]
    return (
        FoldWork(aggregator, by, inputs, len(result)),
        Fields.parse(", ".join([*columns, result.ddl])),
    )
