"""Which task a grouping chooses for a tuple."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from headrace.flow.error import EmitError
from headrace.flow.plan.grouping import (
    All,
    Custom,
    Direct,
    FieldsGrouping,
    Global,
    Grouping,
    PartialKey,
    Shuffle,
)
from headrace.flow.runtime.route import hashes, route
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin


def words(*values: str | None) -> TupleBatch:
    columns = pa.record_batch({"word": pa.array(values, pa.string()), "n": range(len(values))})
    return TupleBatch(columns, no_origin(len(values)))


def routed(
    batch: TupleBatch, grouping: Grouping, tasks: int, **more: object
) -> dict[int, list[int]]:
    parts = route(batch, grouping, tasks, turn=0, **more)  # type: ignore[arg-type]
    return {task: part.columns["n"].to_pylist() for task, part in parts}


def test_shuffle_divides_evenly() -> None:
    parts = routed(words(*["a"] * 10), Shuffle(), 4)

    assert sorted(map(len, parts.values())) == [2, 2, 3, 3]
    assert sorted(n for part in parts.values() for n in part) == list(range(10))


def test_fields_sends_a_value_to_one_task_in_order() -> None:
    values = [f"word-{n % 7}" for n in range(100)]

    parts = routed(words(*values), FieldsGrouping(("word",)), 3)

    homes = {values[n]: task for task, part in parts.items() for n in part}
    assert all(homes[values[n]] == task for task, part in parts.items() for n in part)
    assert all(part == sorted(part) for part in parts.values())
    assert len(parts) > 1


def test_a_value_goes_to_the_same_task_in_another_batch() -> None:
    def home(*values: str) -> int:
        parts = routed(words(*values), FieldsGrouping(("word",)), 5)
        return next(task for task, part in parts.items() if len(values) - 1 in part)

    assert home("kettle") == home("lamp", "chair", "kettle")


def test_nulls_are_a_value_too() -> None:
    parts = routed(words(None, "a", None, None), FieldsGrouping(("word",)), 4)

    assert [0, 2, 3] in [[n for n in part if n != 1] for part in parts.values()]


def test_partial_key_shares_a_hot_value_between_two_tasks() -> None:
    parts = routed(words(*["hot"] * 100), PartialKey(("word",)), 8)

    assert [len(part) for part in parts.values()] == [50, 50]


def test_all_goes_to_every_task() -> None:
    assert routed(words("a", "b"), All(), 3) == {0: [0, 1], 1: [0, 1], 2: [0, 1]}


def test_global_goes_to_the_first_task_alone() -> None:
    assert routed(words("a", "b"), Global(), 3) == {0: [0, 1]}


def test_direct_goes_where_the_emitter_says() -> None:
    assert routed(words("a", "b", "c"), Direct(), 3, direct=np.array([2, 0, 2])) == {
        0: [1],
        2: [0, 2],
    }


def test_direct_without_a_task_is_refused() -> None:
    with pytest.raises(EmitError, match="needs the task"):
        routed(words("a", "b"), Direct(), 3)


def test_custom_asks_the_users_function() -> None:
    by_length = Custom(
        lambda batch, tasks: [len(each) % tasks for each in batch["word"].to_pylist()]
    )

    assert routed(words("a", "bb", "cc"), by_length, 2) == {0: [1, 2], 1: [0]}


def test_a_task_that_does_not_exist_is_refused() -> None:
    with pytest.raises(EmitError, match="a task of 7 was named, but there are 2"):
        routed(words("a"), Custom(lambda batch, tasks: [7]), 2)


def test_many_values_are_spread_over_all_tasks() -> None:
    chosen = routed(words(*map(str, range(1_000))), FieldsGrouping(("word",)), 4)

    assert min(Counter({task: len(part) for task, part in chosen.items()}).values()) > 180


def test_a_date_after_the_year_9999_changes_no_other_dates_task() -> None:
    days = [-719_162, -1, 0, 20_000, 2_932_896]  # from the year 1 to 9999
    known = pa.record_batch({"day": pa.array(days, pa.date32())})
    with_others = pa.record_batch({"day": pa.array([*days, 10**7, -(10**6)], pa.date32())})

    assert list(hashes(with_others, ("day",))[:-2]) == list(hashes(known, ("day",)))
