"""Mistakes in a plan, each reported in one sentence before Spark starts."""

import difflib
import pickle
from collections.abc import Iterable
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.plan import Input, Kind, Plan, PlanComponent


def check_plan(plan: Plan) -> None:
    """Raise for the first mistake of a plan.

    Raises:
        FlowError: naming the component, what is wrong with it, and what would be right.
    """
    if not any(each.kind is Kind.SPOUT for each in plan.components.values()):
        raise FlowError(f"{plan.name} has no spout: nothing would ever flow")
    for component in plan.components.values():
        _check_alone(component)
        for each in component.inputs:
            _check_input(plan, component, each)
    ordered_components(plan)
    for component in plan.components.values():
        _check_pickles(component)


def ordered_components(plan: Plan) -> list[PlanComponent]:
    """Return the components, each after the ones it reads from.

    Raises:
        FlowError: they form a circle.
    """
    done: dict[str, PlanComponent] = {}
    left = dict(plan.components)
    while left:
        ready = [
            each
            for each in left.values()
            if all(source.component in done for source in each.inputs)
        ]
        if not ready:
            raise FlowError(
                f"{_circle(left)} form a circle: let one of them write to a topic and a spout read"
                " it from there"
            )
        for each in ready:
            done[each.name] = left.pop(each.name)
    return list(done.values())


def _circle(left: dict[str, PlanComponent]) -> str:
    """Return the names on one circle among components that all wait for each other."""
    path = [next(iter(left))]
    while True:
        following = next(
            source.component for source in left[path[-1]].inputs if source.component in left
        )
        if following in path:
            return ", ".join(reversed(path[path.index(following) :]))
        path.append(following)


def _check_alone(component: PlanComponent) -> None:
    if component.parallelism < 1:
        raise FlowError(
            f"{component.name} has a parallelism of {component.parallelism}: it needs 1 or more"
        )
    check_outputs = getattr(component.work, "check_outputs", None)
    if check_outputs is not None:
        check_outputs(component.outputs, component.name)
    if component.kind is Kind.SPOUT:
        if not component.outputs:
            raise FlowError(f"the spout {component.name} declares no output fields")
    elif not component.inputs:
        raise FlowError(
            f"the {component.kind.value} {component.name} reads from nowhere: give it a grouping,"
            " such as .shuffle('some-component')"
        )


def _check_input(plan: Plan, component: PlanComponent, source: Input) -> None:
    feeder = plan.components.get(source.component)
    if feeder is None:
        raise FlowError(
            f"{component.name} reads from {source.component!r}, which is no component"
            f"{_nearest(source.component, plan.components)}"
        )
    if source.stream not in feeder.outputs:
        raise FlowError(
            f"{component.name} reads the stream {source.stream!r} of {source.component}, which"
            f" declares {', '.join(feeder.outputs) or 'none'}"
        )
    check_fields = getattr(component.work, "check_fields", None)
    if check_fields is not None:
        check_fields(plan.fields_of(source), component.name)
    plan.fields_of(source).check_known(
        source.grouping.field_names, f"the grouping of {component.name} on {source.component}"
    )


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"


def _check_pickles(component: PlanComponent) -> None:
    """Refuse a component whose work cannot be sent to Spark's workers.

    It must pickle with cloudpickle, as Spark does it: lambdas and functions of the main module are
    fine.
    """
    problem = _pickle_problem(component.work)
    if problem is None:
        return
    where = _culprit(component.work)
    made_in = "open" if component.kind is Kind.SPOUT else "prepare"
    raise FlowError(
        f"{component.name} cannot be sent to Spark's workers: {where or 'it'} does not pickle"
        f" ({problem}); make it in {made_in}() instead"
    )


def _pickle_problem(value: Any) -> Exception | None:
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except (TypeError, AttributeError, ValueError, pickle.PicklingError, RecursionError) as error:
        return error
    return None


def _culprit(value: Any, path: str = "", depth: int = 4) -> str | None:
    """Return the attribute that does not pickle, the deepest one that can be named."""
    for name, each in getattr(value, "__dict__", {}).items():
        if _pickle_problem(each) is not None:
            here = f"{path}.{name}" if path else f"its attribute {name}"
            return (_culprit(each, here, depth - 1) if depth else None) or here
    return None
