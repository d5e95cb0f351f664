"""One holder at a time, until it releases the lock or its session ends."""

import pytest

from headrace.cluster.session_lock import LOCK_KIND, SessionLock
from headrace.model.error import StorageError
from testkit.simulation.memory_store import Ensemble, MemoryStore


@pytest.fixture
def ensemble():
    return Ensemble()


def lock(ensemble, machine):
    store = MemoryStore(ensemble)
    return store, SessionLock(store, "restart", {"machine": machine})


def test_the_second_is_shown_the_first(ensemble):
    _, first = lock(ensemble, "m1")
    _, second = lock(ensemble, "m2")

    assert first.acquire() is None
    assert second.acquire()["machine"] == "m1"
    assert first.held() and not second.held()


def test_it_is_free_after_its_release(ensemble):
    _, first = lock(ensemble, "m1")
    _, second = lock(ensemble, "m2")
    first.acquire()

    second.release()  # is not its own
    assert second.acquire() is not None
    first.release()

    assert second.acquire() is None


def test_a_holder_whose_session_ends_has_lost_it(ensemble):
    store, first = lock(ensemble, "m1")
    _, second = lock(ensemble, "m2")
    first.acquire()

    ensemble.expire(store)

    assert not first.held()
    assert second.acquire() is None
    assert not first.held()
    first.release()
    assert second.held()


def test_a_commit_whose_answer_is_lost_is_noticed(ensemble):
    store, first = lock(ensemble, "m1")

    def lose():
        raise StorageError("the connection is cut")

    store.after = lose
    with pytest.raises(StorageError):
        first.acquire()
    store.after = lambda: None

    assert first.held()
    assert first.acquire() is None


def test_a_damaged_node_is_a_holder(ensemble):
    _, first = lock(ensemble, "m1")
    MemoryStore(ensemble).put(f"/{LOCK_KIND}/restart", b"rubbish", None)

    assert first.acquire() == {}
    assert not first.held()
