"""The work of `partition_persist`, for each kind of state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import All, Custom, FieldsGrouping, Global, Grouping
from headrace.flow.plan.plan import DEFAULT_STREAM, PlanComponent
from headrace.flow.plan.work import Work
from headrace.flow.trident.operation import evenly
from headrace.flow.trident.state import StateFactory, StateFields
from headrace.flow.trident.topic_state import TopicState
from headrace.flow.trident.update_work import (
    CHANGES,
    BackedUpdateWork,
    SparkUpdateWork,
    StateUpdateWork,
)


@dataclass(frozen=True, slots=True)
class PersistParts:
    """What a component of `partition_persist` is made of.

    Attributes:
        state_fields: None for a state of the user's own.
        factory: None for a state in Spark's checkpoint.
        stateful: whether it is in Spark's checkpoint.
    """

    work: Work
    outputs: dict[str, Fields]
    state_fields: StateFields | None
    factory: StateFactory | None
    stateful: bool


def persist_parts(
    fields: Fields,
    state: Any,
    updater: Any,
    inputs: tuple[str, ...],
    output: str | None,
    key: str | None,
    value: str | None,
) -> PersistParts:
    """Return the parts for a stream with these fields.

    Args:
        key, value: fields of the state, with types; a field of the stream may stand without one.

    Raises:
        FlowError: the state, the updater or a field is wrong.
    """
    if isinstance(updater, type):
        raise FlowError(f"give an object, {updater.__name__}(), not the class")
    if not callable(getattr(updater, "update_state", updater)):
        raise FlowError(
            f"{updater!r} is no updater: give a StateUpdater, or a function (state, tuples,"
            " collector)"
        )
    made = {} if output is None else {DEFAULT_STREAM: Fields.parse(output)}
    width = len(made[DEFAULT_STREAM]) if made else 0
    own = isinstance(state, StateFactory) and type(state).make_state is not StateFactory.make_state
    if own:
        if key is not None or value is not None:
            raise FlowError(
                f"{type(state).__name__} makes a state of its own, which has neither key nor value"
            )
        work: Work = StateUpdateWork(state, updater, inputs, width)
        return PersistParts(work, made, None, state, stateful=False)
    if not isinstance(state, StateFactory | TopicState):
        raise FlowError(
            f"{state!r} is no state: give a TopicState, SqliteState, PostgresState, ParquetState,"
            " or a StateFactory with make_state"
        )
    if key is None or value is None:
        raise FlowError(
            f"partition_persist needs the fields of a {type(state).__name__}: write"
            " key='user STRING', value='place STRING'"
        )
    state_fields = StateFields(_typed(fields, key), _typed(fields, value))
    if isinstance(state, StateFactory):
        work = BackedUpdateWork(state, state_fields, updater, inputs, width)
        return PersistParts(work, made, state_fields, state, stateful=False)
    changes = Fields.parse(f"{state_fields.key.ddl}, {state_fields.value.ddl}")
    work = SparkUpdateWork(state_fields, updater, inputs, width)
    return PersistParts(work, {**made, CHANGES: changes}, state_fields, None, stateful=True)


def partition_grouping(first: PlanComponent | None, fields: Fields) -> Grouping:
    """Return a grouping that brings all tuples of a batch to a task in one piece.

    Args:
        first: the first operation behind the last repartitioning; None if there was none.

    Raises:
        FlowError: tuples cannot be brought to their tasks once more.
    """
    if first is None:
        return Custom(evenly)
    before = first.inputs[0].grouping
    again = (
        isinstance(before, Global)
        or (isinstance(before, Custom) and before.choose is evenly)
        or (isinstance(before, FieldsGrouping) and {*before.names} <= {*fields.names})
    )
    if not again:
        raise FlowError(
            "partition_persist gets the tuples of a task in one piece, and cannot repeat the"
            f" repartitioning before {first.name}: write partition_by(...) or shuffle() right"
            " before partition_persist"
        )
    return before


def check_divided(components: Mapping[str, PlanComponent]) -> None:
    """Check that the tuples of a key are in one task where several tasks share a state.

    Two tasks that change a key in one batch have the same id of a transaction, and one of the two
    changes would be lost.

    Raises:
        FlowError: tuples are divided evenly between tasks, or go to all of them.
    """
    for each in components.values():
        if isinstance(each.work, BackedUpdateWork) and each.parallelism > 1:
            grouping = each.inputs[0].grouping
            shared = isinstance(grouping, Custom) and grouping.choose is evenly
            if shared or isinstance(grouping, All):
                key = ", ".join(map(repr, each.work.state_fields.key.names))
                raise FlowError(
                    f"{each.name} has {each.parallelism} tasks, and a key may be in several of"
                    f" them: write partition_by({key}) before partition_persist"
                )


def _typed(fields: Fields, text: str) -> Fields:
    """Return fields as a user writes them; one without a type has that of the stream."""
    if "<" in text or "(" in text:
        return Fields.parse(text)
    columns = []
    for each in text.split(","):
        name = each.strip()
        if " " not in name:
            fields.check_known([name], "partition_persist")
            name = f"{name} {fields.ddl_of(name)}"
        columns.append(name)
    return Fields.parse(", ".join(columns))
