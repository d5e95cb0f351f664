"""A task's state: changes of calls and batches, and what a worker remembers."""

import pickle
from typing import Any

import pytest

from headrace.flow.error import Unrecoverable
from headrace.flow.runtime.state_memory import StateMemory
from headrace.flow.runtime.task_state import StateKeeper, TaskState


class Stored:
    """The part of Spark's ValueState and ListState that is used."""

    def __init__(self) -> None:
        self.value: tuple[bytes] | None = None
        self.items: list[tuple[bytes]] = []
        self.reads = 0

    def get(self) -> Any:
        self.reads += 1
        return self.value

    def update(self, value: tuple[bytes]) -> None:
        self.value = value


class StoredList:
    def __init__(self) -> None:
        self.items: list[tuple[bytes]] = []
        self.reads = 0

    def get(self) -> Any:
        self.reads += 1
        return iter(list(self.items))

    def put(self, items: list[tuple[bytes]]) -> None:
        self.items = list(items)

    def appendValue(self, item: tuple[bytes]) -> None:  # noqa: N802 - Spark's name
        self.items.append(item)


def keep(stamp: Stored, changes: StoredList, memory: StateMemory, **puts: Any) -> TaskState:
    keeper = StateKeeper(stamp, changes, memory)
    state = keeper.load(0)
    state.put_all(puts.items())
    state.accept()
    keeper.save(0, state)
    return state


def test_a_call_sees_its_own_changes() -> None:
    state = TaskState({"a": 1})
    state.put("b", 2)
    state.delete("a")

    assert dict(state.items()) == {"b": 2}
    assert "a" not in state


def test_a_call_that_raised_has_changed_nothing() -> None:
    state = TaskState({"a": 1})
    state.put("a", 2)
    state.rollback()

    assert state.get("a") == 1


def test_a_range_is_in_the_order_of_the_keys() -> None:
    state = TaskState({3: "c", 1: "a", 2: "b", 9: "z"})

    assert state.range(1, 4) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_state_is_there_again_in_another_worker() -> None:
    stamp, changes = Stored(), StoredList()
    keep(stamp, changes, StateMemory(), a=1, b=2)
    keep(stamp, changes, StateMemory(), b=3)

    assert dict(StateKeeper(stamp, changes, StateMemory()).load(0).items()) == {"a": 1, "b": 3}


def test_the_worker_that_wrote_it_does_not_read_it_again() -> None:
    stamp, changes, memory = Stored(), StoredList(), StateMemory()
    keep(stamp, changes, memory, a=1)

    keep(stamp, changes, memory, b=2)

    assert changes.reads == 0


def test_a_batch_repeated_in_another_worker_invalidates_the_memory() -> None:
    stamp, changes, memory = Stored(), StoredList(), StateMemory()
    keep(stamp, changes, memory, a=1)
    before = stamp.value, list(changes.items)
    keep(stamp, changes, memory, a="lost")
    stamp.value, changes.items = before
    keep(stamp, changes, StateMemory(), a="right")

    assert keep(stamp, changes, memory).get("a") == "right"


def test_a_long_list_of_changes_is_replaced_by_the_state() -> None:
    stamp, changes = Stored(), StoredList()
    keep(stamp, changes, StateMemory(), large="x" * 100_000)
    for number in range(100):
        keep(stamp, changes, StateMemory(), a=number)

    assert 1 < len(changes.items) <= 64
    assert StateKeeper(stamp, changes, StateMemory()).load(0).get("a") == 99


@pytest.mark.parametrize("remembers", [True, False])
def test_changes_that_are_larger_than_the_state_are_replaced_by_it(remembers: bool) -> None:
    stamp, changes, memory = Stored(), StoredList(), StateMemory()
    for batch in range(30):
        kept = memory if remembers else StateMemory()
        keep(stamp, changes, kept, **{f"key{number}": batch for number in range(100)})

        sizes = [len(change) for (change,) in changes.items]
        assert sum(sizes[1:]) <= sizes[0]
    found = StateKeeper(stamp, changes, StateMemory()).load(0)
    assert dict(found.items()) == {f"key{number}": 29 for number in range(100)}


def test_a_small_change_of_a_large_state_is_all_that_is_written() -> None:
    stamp, changes = Stored(), StoredList()
    keep(stamp, changes, StateMemory(), **{f"key{number}": number for number in range(1_000)})
    for number in range(20):
        keep(stamp, changes, StateMemory(), key0=-number)

    sizes = [len(change) for (change,) in changes.items]
    assert len(sizes) == 21
    assert max(sizes[1:]) * 100 < sizes[0]


def test_a_batch_that_changed_nothing_writes_nothing() -> None:
    stamp, changes, memory = Stored(), StoredList(), StateMemory()
    keep(stamp, changes, memory, a=1)
    written = stamp.value

    keep(stamp, changes, memory)

    assert stamp.value is written
    assert len(changes.items) == 1


def test_a_value_that_a_failed_call_changed_in_place_is_as_it_was() -> None:
    state = TaskState()
    state.put("words", ["a"])
    state.accept()
    state.take_changes()

    words = state.get("words")
    words.append("b")
    state.put("words", words)
    state.rollback()

    assert state.get("words") == ["a"]


def test_a_value_that_changes_after_it_was_put_is_kept_as_it_was_put() -> None:
    state, words = TaskState(), ["a"]
    state.put("words", words)
    words.append("b")

    assert state.get("words") == ["a"]
    assert dict(state.items()) == {"words": ["a"]}


def test_a_value_in_a_tuple_is_protected_too() -> None:
    state = TaskState()
    state.put("words", (1, ["a"]))
    state.get("words")[1].append("b")

    assert state.get("words") == (1, ["a"])


def test_values_that_cannot_change_are_not_copied() -> None:
    state, value = TaskState(), ("a" * 100, 1, (2.5, None, b"x"), frozenset([7]))
    state.put("key", value)

    assert state.get("key") is value


def test_a_value_that_does_not_pickle_ends_the_flow() -> None:
    with pytest.raises(Unrecoverable, match=r"the value of 'key' .* must pickle"):
        TaskState().put("key", [lambda: None])


def test_a_state_of_an_older_version_is_read() -> None:
    stamp, changes = Stored(), StoredList()
    stamp.value = (b"stamp",)
    changes.items = [(pickle.dumps(({"a": ["x"], "b": 1}, [])),), (pickle.dumps(({}, ["b"])),)]

    state = StateKeeper(stamp, changes, StateMemory()).load(0)
    state.get("a").append("y")

    assert dict(state.items()) == {"a": ["x"]}
