"""The options of a plan's sources and of its sink, from the plan's settings.

Rule 1: every spout has a cap per batch. Without one the first batch of a new flow is the whole
        topic: one transaction, which must end within its timeout, and for bolts with state one
        Arrow batch per task, which must fit into a worker. A flow that fails there fails again
        at every start.
Rule 2: an option of the spout itself goes before one of the settings.
"""

import copy
from dataclasses import replace
from typing import Any, Final

from headrace.flow.execution.fail_unfinished import has_python_spout
from headrace.flow.plan.client_option import client_options, without_java
from headrace.flow.plan.grouping import PartialKey
from headrace.flow.plan.plan import Kind, Latency, Plan, PlanComponent
from headrace.flow.plan.setting import prefixed
from headrace.flow.runtime.stage_run import METRICS_TOPIC

MAX_OFFSETS: Final = 1_000_000
"""How many records a spout reads for one batch, unless it or the settings say otherwise. Measured:
docs/flow.md."""

_CAP: Final = "maxOffsetsPerTrigger"
_FLOOR: Final = "minOffsetsPerTrigger"


def with_source_options(plan: Plan) -> Plan:
    """Return the plan with the options of its spouts complete."""
    components = {
        name: replace(each, work=_complete(plan, each.work)) if _has_options(each) else each
        for name, each in plan.components.items()
    }
    return replace(plan, components=components)


def sink_options(plan: Plan) -> dict[str, str]:
    """Return the options of the plan's sink: `kafka.*` of all clients, then those of `sink.*`."""
    own = without_java(prefixed(plan.settings, "sink."))
    options = {**client_options(plan.settings), **own}
    if replay_may_differ(plan):
        options = with_defaults(options, {"replayMayDiffer": "true"})
    return options


def replay_may_differ(plan: Plan) -> bool:
    """Return whether a batch that is done again may write another number of records.

    A tuple may raise the second time only, tasks may be divided otherwise and report other figures,
    `partial_key` may choose the other task, and what depends on the clock sees another time. A
    spout in Python emits the tuples of the batch again in a later one.
    """
    components = plan.components.values()
    return (
        plan.dead_letters is not None
        or METRICS_TOPIC in plan.settings
        or has_python_spout(plan)
        or any(each.tick_seconds is not None for each in components)
        or any(isinstance(each.grouping, PartialKey) for one in components for each in one.inputs)
    )


def with_defaults(options: dict[str, str], defaults: dict[str, str]) -> dict[str, str]:
    """Return options with those defaults that they do not have; case does not matter."""
    written = {name.lower() for name in options}
    return {key: text for key, text in defaults.items() if key.lower() not in written} | options


def capped(options: dict[str, str]) -> dict[str, str]:
    """Return the options of a streaming source with a cap per batch.

    With a minimum of its own a source has no default cap: it could be lower.
    """
    if _FLOOR.lower() in {name.lower() for name in options}:
        return options
    return with_defaults(options, {_CAP: str(MAX_OFFSETS)})


def _complete(plan: Plan, spout: Any) -> Any:
    complete = copy.copy(spout)
    options = with_defaults(dict(spout.options), prefixed(plan.settings, "source."))
    # Spark's own connector has other limits in its real-time mode.
    complete.options = options if plan.latency is Latency.REALTIME else capped(options)
    return complete


def _has_options(component: PlanComponent) -> bool:
    return component.kind is Kind.SPOUT and isinstance(
        getattr(component.work, "options", None), dict
    )
