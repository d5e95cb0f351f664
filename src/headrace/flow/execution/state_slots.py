"""The slots of the components with state, in a file of the checkpoint.

Spark keeps the state of a task under the number of its slot. A program that was edited may have
another component in that slot, or divide the keys of a component between more tasks, and would go
on with a state that is empty or another's. So a start compares its slots with the file's.

Rule 1: the file `slot-components` has the operator of Spark and the slots of each component with
        state. It is written before the first batch begins, and again when components are added.
Rule 2: a component that is gone stays in the file: its state stays in the checkpoint too.
Rule 3: a checkpoint that has batches and no such file is of an earlier version. It goes on with the
        slots of the program that is started first, which are written.
Rule 4: without a batch nothing depends on the file, so a start replaces what an earlier one left.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.flow.error import FlowError
from headrace.flow.plan.plan import Plan
from headrace.flow.plan.stage import stage_layout
from headrace.flow.storage.file_store import FileStore, numbered

_FILE = "slot-components"


@dataclass(frozen=True, slots=True)
class StateSlots:
    """Where Spark keeps the state of a component.

    Attributes:
        operator: the number of its stage among those that Spark has a state for.
        slots: one per task.
    """

    operator: int
    slots: range


def state_slots(plan: Plan) -> dict[str, StateSlots]:
    """Return where each component with state has it.

    A component whose tasks are those of partitions is left out: there may be more of them at the
    next start, and what declares it checks its tasks itself.
    """
    layout = stage_layout(plan)
    operators = [each.components for each in layout.stages if each.stateful]
    return {
        name: StateSlots(operator, layout.slots[name])
        for operator, names in enumerate(operators)
        for name in names
        if plan.components[name].stateful and not plan.components[name].task_per_partition
    }


def check_state_slots(checkpoint: FileStore, now: Mapping[str, StateSlots]) -> None:
    """Check that a program finds its state where the checkpoint has it, and keep where it is.

    Raises:
        FlowError: it would find none, or another component's; or the file is damaged.
    """
    kept: dict[str, StateSlots] = {}
    if numbered(checkpoint.names("offsets")) and checkpoint.exists(_FILE):
        kept = _read(checkpoint)
        for name, slots in now.items():
            _check(checkpoint.text, name, slots, kept)
    together = {**kept, **now}
    if together != kept:
        _write(checkpoint, together)


def _check(checkpoint: str, name: str, now: StateSlots, kept: Mapping[str, StateSlots]) -> None:
    before = kept.get(name)
    if before is None:
        for other, its in kept.items():
            if its.operator == now.operator and set(its.slots) & set(now.slots):
                raise FlowError(
                    f"the checkpoint {checkpoint} has the state of {other} where {name} is now:"
                    f" {_AGAIN}"
                )
    elif len(before.slots) != len(now.slots):
        raise FlowError(
            f"the checkpoint {checkpoint} has the state of {_tasks(before)} of {name}, but the"
            f" program has {_tasks(now)}: give it {len(before.slots)} again, or start with a new"
            " checkpoint"
        )
    elif before != now:
        raise FlowError(
            f"the program would not find the state of {name} in the checkpoint {checkpoint}:"
            f" components before it were added, removed or given other tasks. {_AGAIN.capitalize()}"
        )


_AGAIN = "declare new components after those with state, or start with a new checkpoint"


def _tasks(found: StateSlots) -> str:
    return f"{len(found.slots)} task{'' if len(found.slots) == 1 else 's'}"


def _read(checkpoint: FileStore) -> dict[str, StateSlots]:
    try:
        written = json.loads(checkpoint.read(_FILE))
        return {
            str(name): StateSlots(int(each["operator"]), range(*map(int, each["slots"])))
            for name, each in written.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FlowError(
            f"{_FILE} in the checkpoint {checkpoint.text} cannot be read, and says where states are"
            " kept: restore it from a copy of the checkpoint, or start with a new checkpoint"
        ) from error


def _write(checkpoint: FileStore, found: Mapping[str, StateSlots]) -> None:
    written = {
        name: {"operator": each.operator, "slots": [each.slots.start, each.slots.stop]}
        for name, each in found.items()
    }
    checkpoint.write(_FILE, json.dumps(written).encode())
