"""Calling a component with batches that have bad tuples."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from headrace.flow.error import Unrecoverable
from headrace.flow.plan.fields import Fields
from headrace.flow.runtime.batch_call import BatchCall
from headrace.flow.runtime.emission import Emission
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin

FIELDS = Fields.parse("key STRING, n BIGINT")


def batch_of(*tuples: tuple[str, int]) -> TupleBatch:
    keys, numbers = zip(*tuples, strict=True)
    columns = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(numbers)], schema=FIELDS.schema)
    return TupleBatch(columns, no_origin(len(tuples)))


def numbered(*numbers: int) -> TupleBatch:
    return batch_of(*(("k", each) for each in numbers))


class Component:
    """Notes its calls; emits the numbers that it was called with, and puts them into the state.

    Args:
        work: called with the numbers and the state; it may raise.
    """

    def __init__(
        self, work: Callable[[list[int], TaskState], Any], *, tries: int = 1, by_tuple: bool = False
    ) -> None:
        self.calls: list[list[int]] = []
        self.given_up: list[int] = []
        self.forgot = 0
        self.state = TaskState()
        self._work = work
        self._tries = tries
        self._by_tuple = by_tuple

    def run(self, batch: TupleBatch, keys: tuple[str, ...] = ()) -> list[list[int]]:
        emissions = BatchCall(
            self._call,
            give_up=lambda part, _: self.given_up.extend(part.columns["n"].to_pylist()),
            forget=self._forget,
            state=self.state,
            tries=self._tries,
            by_tuple=self._by_tuple,
        ).run(batch, keys)
        return [each.emitted[0].batch.columns["n"].to_pylist() for each in emissions]

    def _call(self, part: TupleBatch) -> Emission:
        numbers = part.columns["n"].to_pylist()
        self.calls.append(numbers)
        emission = Emission("test", {"default": FIELDS}, part)
        emission(part.columns)
        self.state.put("seen", [*self.state.get("seen", []), *numbers])
        self._work(numbers, self.state)
        return emission

    def _forget(self) -> None:
        self.forgot += 1


def no_negative(numbers: list[int], _state: TaskState) -> None:
    if min(numbers) < 0:
        raise ValueError("negative")


def test_a_batch_without_bad_tuples_is_one_call() -> None:
    component = Component(no_negative)

    assert component.run(numbered(1, 2, 3, 4)) == [[1, 2, 3, 4]]
    assert component.calls == [[1, 2, 3, 4]]
    assert component.state.get("seen") == [1, 2, 3, 4]


def test_all_good_tuples_of_a_batch_are_in_one_call_that_stands() -> None:
    component = Component(no_negative)

    assert component.run(numbered(1, 2, -3, 4, 5, -6, 7)) == [[1, 2, 4, 5, 7]]
    assert component.given_up == [-3, -6]
    assert component.state.get("seen") == [1, 2, 4, 5, 7]
    assert component.forgot == 1


def test_what_earlier_calls_of_a_batch_put_is_not_rolled_back() -> None:
    component = Component(no_negative)
    component.run(numbered(1, 2))

    component.run(numbered(3, -4, 5))

    assert component.state.get("seen") == [1, 2, 3, 5]


def test_only_bad_tuples_leave_nothing() -> None:
    component = Component(no_negative)

    assert component.run(numbered(-1, -2, -3)) == []
    assert component.given_up == [-1, -2, -3]
    assert "seen" not in component.state


def test_a_tuple_that_needs_one_before_it_is_not_given_up() -> None:
    def needs_the_one_before(numbers: list[int], state: TaskState) -> None:
        no_negative(numbers, state)
        known = state.get("seen")
        if any(each - 1 not in known for each in numbers if each > 1):
            raise KeyError("unknown")

    component = Component(needs_the_one_before)

    assert component.run(numbered(1, 2, 3, 4, 5, -1)) == [[1, 2, 3, 4, 5]]
    assert component.given_up == [-1]


def test_tuples_that_raise_only_together_are_done_in_parts() -> None:
    def at_most_two(numbers: list[int], _state: TaskState) -> None:
        if len(numbers) > 2:
            raise ValueError("too many")

    component = Component(at_most_two)

    assert component.run(numbered(1, 2, 3, 4)) == [[1, 2], [3, 4]]
    assert component.given_up == []
    assert component.state.get("seen") == [1, 2, 3, 4]


def test_a_key_that_raises_divides_no_other_key() -> None:
    def no_zero_sum(numbers: list[int], _state: TaskState) -> None:
        if {5, -5} <= set(numbers):
            raise ZeroDivisionError

    component = Component(no_zero_sum)
    batch = batch_of(("mine", 1), ("evil", 5), ("mine", 10), ("evil", -5), ("mine", 100))

    emitted = component.run(batch, keys=("key",))

    assert [1, 10, 100] in emitted
    assert sorted(each for part in emitted for each in part) == [-5, 1, 5, 10, 100]


def test_a_component_that_does_each_tuple_on_its_own_is_not_called_once_more() -> None:
    component = Component(no_negative, by_tuple=True)

    assert component.run(numbered(1, 2, -3, 4)) == [[1, 2], [4]]
    assert component.calls == [[1, 2, -3, 4], [1, 2], [-3, 4], [-3], [4]]


def test_a_batch_is_tried_again_before_it_is_divided() -> None:
    failures = [ConnectionError("once")]

    def flaky(_numbers: list[int], _state: TaskState) -> None:
        if failures:
            raise failures.pop()

    component = Component(flaky, tries=2)

    assert component.run(numbered(1, 2)) == [[1, 2]]
    assert component.calls == [[1, 2], [1, 2]]


def test_what_cannot_be_mended_ends_the_run() -> None:
    def unrecoverable(_numbers: list[int], _state: TaskState) -> None:
        raise Unrecoverable("a mistake in the program")

    with pytest.raises(Unrecoverable):
        Component(unrecoverable).run(numbered(1, 2))
