"""Which states a worker keeps in memory between batches."""

from headrace.flow.runtime.state_memory import ChangeList, RememberedState, StateMemory

STATE = RememberedState(b"stamp", ChangeList(1, 20), {"a": 1})


def test_a_state_that_is_used_stays() -> None:
    memory = StateMemory()
    for batch in range(20):
        memory.begin_batch(str(batch))
        assert batch == 0 or memory.get(3) is STATE
        memory.remember(3, STATE)


def test_a_state_that_another_worker_has_taken_over_leaves() -> None:
    memory = StateMemory()
    memory.begin_batch("0")
    memory.remember(3, STATE)
    for batch in range(1, 6):
        memory.begin_batch(str(batch))
        memory.begin_batch(str(batch))
        memory.remember(4, STATE)

    assert memory.get(3) is None
    assert memory.get(4) is STATE


def test_a_state_survives_a_few_batches_without_tuples() -> None:
    memory = StateMemory()
    memory.begin_batch("0")
    memory.remember(3, STATE)
    for batch in range(1, 4):
        memory.begin_batch(str(batch))

    assert memory.get(3) is STATE


def test_calls_outside_a_stream_are_no_batches() -> None:
    memory = StateMemory()
    memory.remember(3, STATE)
    for _ in range(20):
        memory.begin_batch(None)

    assert memory.get(3) is STATE
