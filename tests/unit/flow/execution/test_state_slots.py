"""Edited programs over a checkpoint that has states."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.flow.error import FlowError
from headrace.flow.execution.state_slots import check_state_slots, state_slots
from headrace.flow.plan.plan import Plan
from headrace.flow.plan.work import Emit
from headrace.flow.storage.file_store import LocalFileStore
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


class Keeping(StatefulBolt):
    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        emit(batch)


def same(value: str) -> tuple[str]:
    return (value,)


def plan(*bolts: tuple[str, int], reads: dict[str, str] | None = None) -> Plan:
    """Return a plan with a bolt per name and number of tasks; those called state... have state."""
    made = Topology("test")
    made.spout("in", TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING"))
    for name, tasks in bolts:
        bolt: Any = Keeping() if name.startswith("state") else same
        declared = made.bolt(name, bolt, output="value STRING", parallelism=tasks)
        declared.fields((reads or {}).get(name, "in"), "value")
    return made.plan()


@pytest.fixture
def store(tmp_path: Path) -> LocalFileStore:
    return LocalFileStore(tmp_path / "checkpoint")


def start(store: LocalFileStore, plan: Plan) -> None:
    """Start a plan over a checkpoint, up to its first batch."""
    check_state_slots(store, state_slots(plan))
    store.write("offsets/0", b"v1")


def test_the_same_program_goes_on(store: LocalFileStore) -> None:
    start(store, plan(("split", 2), ("state", 2)))
    start(store, plan(("split", 2), ("state", 2)))

    assert json.loads(store.read("slot-components")) == {"state": {"operator": 0, "slots": [2, 4]}}


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        (plan(("state", 3)), "2 tasks of state, but the program has 3 tasks: give it 2 again"),
        (plan(("state", 1)), "2 tasks of state, but the program has 1 task:"),
        (plan(("split", 2), ("state", 2)), "would not find the state of state in the checkpoint"),
        (plan(("state-new", 2)), "has the state of state where state-new is now"),
        (plan(("state-new", 2), ("state", 2)), "the state of state where state-new is now"),
        (
            plan(("state", 2), ("state-b", 1), reads={"state": "state-b"}),
            "would not find the state of state",
        ),
    ],
)
def test_a_program_that_would_find_another_state_is_refused(
    store: LocalFileStore, edited: Plan, said: str
) -> None:
    start(store, plan(("state", 2)))
    before = store.read("slot-components")

    with pytest.raises(FlowError) as refused:
        start(store, edited)

    assert said in str(refused.value)
    assert str(refused.value).endswith("start with a new checkpoint")
    assert store.read("slot-components") == before
    start(store, plan(("state", 2)))


def test_a_program_may_grow_at_its_end(store: LocalFileStore) -> None:
    start(store, plan(("state", 2)))
    start(store, plan(("state", 2), ("split", 2), ("state-b", 3)))

    with pytest.raises(FlowError, match="3 tasks of state-b"):
        start(store, plan(("state", 2), ("split", 2), ("state-b", 4)))
    with pytest.raises(FlowError, match="would not find the state of state-b"):
        start(store, plan(("state", 2), ("split", 1), ("state-b", 3)))


def test_a_stateless_bolt_may_get_other_tasks_behind_the_state(store: LocalFileStore) -> None:
    start(store, plan(("state", 2), ("split", 2)))

    start(store, plan(("state", 2), ("split", 7)))


def test_the_place_of_a_component_that_is_gone_stays_taken(store: LocalFileStore) -> None:
    start(store, plan(("state", 2), ("state-b", 2)))
    start(store, plan(("state", 2)))

    with pytest.raises(FlowError, match="the state of state-b where state-c is now"):
        start(store, plan(("state", 2), ("state-c", 2)))
    start(store, plan(("state", 2), ("state-b", 2)))


def test_a_start_that_ended_before_its_first_batch_binds_nothing(store: LocalFileStore) -> None:
    check_state_slots(store, state_slots(plan(("state", 2))))

    start(store, plan(("state", 3)))

    with pytest.raises(FlowError, match="3 tasks of state"):
        start(store, plan(("state", 2)))


def test_a_checkpoint_of_an_earlier_version_goes_on_and_is_bound_then(
    store: LocalFileStore,
) -> None:
    store.write("offsets/7", b"v1")

    start(store, plan(("state", 3)))

    with pytest.raises(FlowError, match="3 tasks of state"):
        start(store, plan(("state", 2)))


def test_a_file_is_written_once(store: LocalFileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    start(store, plan(("state", 2)))
    monkeypatch.setattr(store, "write", lambda *_: pytest.fail("written again"))

    check_state_slots(store, state_slots(plan(("state", 2))))


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"state": 2}', b'{"state": {"operator": 0}}', b"[" * 100_000]
)
def test_a_damaged_file_is_no_reason_to_begin_without_states(
    store: LocalFileStore, text: bytes
) -> None:
    store.write("offsets/0", b"v1")
    store.write("slot-components", text)

    with pytest.raises(FlowError, match="restore it from a copy"):
        check_state_slots(store, state_slots(plan(("state", 2))))
