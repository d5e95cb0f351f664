"""Mistakes in a plan, found before Spark starts and told in one sentence each."""

import difflib
import pickle
from collections.abc import Iterable
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.plan import Component, Input, Kind, Plan


def check(plan: Plan) -> None:
    """Raise for the first mistake.

    Raises:
        FlowError: naming the component, what is wrong with it, and what would be right.
    """
    if not any(each.kind is Kind.SPOUT for each in plan.components.values()):
        raise FlowError(f"{plan.name} has no spout: nothing would ever flow")
    for component in plan.components.values():
        _check_alone(component)
        for each in component.inputs:
            _check_input(plan, component, each)
    order(plan)
    for component in plan.components.values():
        _check_pickles(component)


def order(plan: Plan) -> list[Component]:
    """The components, each after the ones it reads from.

    Raises:
        FlowError: they form a circle.
    """
    done: dict[str, Component] = {}
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


def _circle(left: dict[str, Component]) -> str:
    """The names on one circle among components that all wait for each other."""
    path = [next(iter(left))]
    while True:
        following = next(
            source.component for source in left[path[-1]].inputs if source.component in left
        )
        if following in path:
            return ", ".join(reversed(path[path.index(following) :]))
        path.append(following)


def _check_alone(component: Component) -> None:
    if component.parallelism < 1:
        raise FlowError(
            f"{component.name} has a parallelism of {component.parallelism}: it needs 1 or more"
        )
    checks = getattr(component.work, "check_outputs", None)
    if checks is not None:
        checks(component.outputs, component.name)
    if component.kind is Kind.SPOUT:
        if not component.outputs:
            raise FlowError(f"the spout {component.name} declares no output fields")
    elif not component.inputs:
        raise FlowError(
            f"the {component.kind.value} {component.name} reads from nowhere: give it a grouping,"
            " such as .shuffle('some-component')"
        )


def _check_input(plan: Plan, component: Component, source: Input) -> None:
    from_whom = plan.components.get(source.component)
    if from_whom is None:
        raise FlowError(
            f"{component.name} reads from {source.component!r}, which is no component"
            f"{_nearest(source.component, plan.components)}"
        )
    if source.stream not in from_whom.outputs:
        raise FlowError(
            f"{component.name} reads the stream {source.stream!r} of {source.component}, which"
            f" declares {', '.join(from_whom.outputs) or 'none'}"
        )
    checks = getattr(component.work, "check_fields", None)
    if checks is not None:
        checks(plan.fields_of(source), component.name)
    plan.fields_of(source).check_known(
        source.grouping.field_names, f"the grouping of {component.name} on {source.component}"
    )


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"


def _check_pickles(component: Component) -> None:
    """Whatever a component does travels to Spark's workers.

    cloudpickle is what Spark uses: it takes lambdas and functions of the main module too.
    """
    problem = _pickle_problem(component.work)
    if problem is None:
        return
    where = _culprit(component.work)
    raise FlowError(
        f"{component.name} cannot be sent to Spark's workers: {where or 'it'} does not pickle"
        f" ({problem}); make it in prepare() instead"
    )


def _pickle_problem(value: Any) -> Exception | None:
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except (TypeError, AttributeError, ValueError, pickle.PicklingError, RecursionError) as error:
        return error
    return None


def _culprit(value: Any, path: str = "", depth: int = 4) -> str | None:
    """The attribute that does not pickle, the deepest one that can be named."""
    for name, each in getattr(value, "__dict__", {}).items():
        if _pickle_problem(each) is not None:
            here = f"{path}.{name}" if path else f"its attribute {name}"
            return (_culprit(each, here, depth - 1) if depth else None) or here
    return None
