"""Changing the number of tasks of a flow that has a checkpoint.

Rule: the checkpoint keeps the state of a task under the number of its slot. So a change that would
give other slots to a component with state is refused.
"""

from collections.abc import Mapping
from dataclasses import replace

from headrace.flow.error import FlowError
from headrace.flow.plan.plan import Plan
from headrace.flow.plan.stage import stage_layout

PARTITIONS = "spark.sql.shuffle.partitions"


def rebalanced(plan: Plan, parallelism: Mapping[str, int], partitions: int | None = None) -> Plan:
    """Return the plan with other numbers of tasks.

    Args:
        parallelism: how many tasks a component has, by its name.
        partitions: how many partitions Spark has between stages.

    Raises:
        FlowError: there is no such component, or the checkpoint does not allow the change.
    """
    components = dict(plan.components)
    for name, tasks in parallelism.items():
        if name not in components:
            raise FlowError(f"{plan.name} has no component {name}: it has {', '.join(components)}")
        if tasks < 1:
            raise FlowError(f"{name} cannot have {tasks} tasks: it needs 1 or more")
        if components[name].stateful:
            raise FlowError(
                f"{name} keeps state, and how many tasks it has is part of its checkpoint: start it"
                " with another number and a new checkpoint"
            )
        components[name] = replace(components[name], parallelism=tasks)
    changed = replace(plan, components=components)
    before, after = stage_layout(plan).slots, stage_layout(changed).slots
    for each in plan.components.values():
        if each.stateful and before.get(each.name) != after.get(each.name):
            raise FlowError(
                f"other numbers of tasks would move the state of {each.name}: declare the bolts"
                " without state after it"
            )
    if partitions is None:
        return changed
    if partitions < 1:
        raise FlowError(f"there cannot be {partitions} partitions: write 1 or more")
    if any(each.stateful for each in plan.components.values()):
        raise FlowError(
            f"{plan.name} keeps state, and into how many partitions it is divided is part of its"
            " checkpoint"
        )
    return replace(changed, settings={**plan.settings, PARTITIONS: str(partitions)})
