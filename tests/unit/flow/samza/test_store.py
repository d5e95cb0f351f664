"""A task's key-value store, against a plain dictionary."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.flow.runtime.task_state import TaskState
from headrace.flow.samza.serde import JsonSerde, StringSerde, StructSerde
from headrace.flow.samza.store import KeyValueStore


def store(state: TaskState | None = None, *, logged: bool = True) -> KeyValueStore:
    made = KeyValueStore("counts", StringSerde(), JsonSerde(), logged)
    made.bind(TaskState() if state is None else state)
    return made


KEYS = st.text(alphabet="abc", min_size=1, max_size=2)
STEPS = st.lists(
    st.tuples(st.just("put"), KEYS, st.integers())
    | st.tuples(st.just("delete"), KEYS, st.none())
    | st.tuples(st.just("range"), KEYS, KEYS)
)


@given(STEPS)
@settings(deadline=None, max_examples=30)
def test_it_does_what_a_sorted_dictionary_does(steps: list[tuple[str, str, Any]]) -> None:
    made, model = store(), dict[str, int]()
    for step, key, value in steps:
        if step == "put":
            made.put(key, value)
            model[key] = value
        elif step == "delete":
            made.delete(key)
            model.pop(key, None)
        else:
            wanted = sorted(item for item in model.items() if key <= item[0] < value)
            assert list(made.range(key, value)) == wanted
        assert made.get(key) == model.get(key)
    assert list(made.all()) == sorted(model.items())


def test_two_stores_of_one_task_do_not_see_each_other() -> None:
    state = TaskState()
    one = store(state)
    other = KeyValueStore("other", StructSerde(">q"), JsonSerde(), logged=False)
    other.bind(state)
    one.put("a", 1)
    other.put(7, 2)
    assert list(one.all()) == [("a", 1)]
    assert list(other.all()) == [(7, 2)]


def test_a_value_changed_after_put_is_not_changed_in_the_store() -> None:
    made = store()
    value = [1]
    made.put("a", value)
    value.append(2)
    made.get("a").append(3)
    assert made.get("a") == [1]


def test_the_changelog_has_the_last_change_of_a_key_and_null_for_a_deleted_one() -> None:
    made = store()
    made.put("a", 1)
    made.put("b", 1)
    made.put("a", 2)
    made.delete("b")
    assert made.take_changes() == [(b"a", b"2"), (b"b", None)]
    assert made.take_changes() == []


def test_several_keys_at_once() -> None:
    made = store()
    made.put_all([("a", 1), ("b", 2), ("c", None)])
    assert made.get_all(["a", "b", "c"]) == {"a": 1, "b": 2}
    made.delete_all(["a", "b"])
    assert list(made.all()) == []


def test_a_store_outside_a_call_says_so() -> None:
    made = KeyValueStore("counts", StringSerde(), JsonSerde(), logged=False)
    with pytest.raises(RuntimeError, match="during init, process and window only"):
        made.get("a")
