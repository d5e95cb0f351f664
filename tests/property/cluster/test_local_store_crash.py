"""The power goes at any moment: what was committed is there, and nothing is half there."""

from pathlib import Path
from random import Random

import pytest

from headrace.cluster import local_store
from headrace.cluster.local_store import LocalStore
from headrace.cluster.store import CreateNode, DeleteNode, UpdateNode, Write
from headrace.model.error import StorageError
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault, PowerLoss

HERE = Path("/data/cluster")
NAMES = [f"/topics/{letter}" for letter in "abcde"]

Model = dict[str, tuple[bytes, int]]


@pytest.fixture(autouse=True)
def small_folds(monkeypatch):
    """Fold every few commits, so that crashes land in the middle of it."""
    monkeypatch.setattr(local_store, "_MINIMUM_FOLD_BYTES", 600)


def some_writes(random: Random, model: Model) -> tuple[list[Write], Model]:
    """A commit that fits the model, and the model after it."""
    after = dict(model)
    writes: list[Write] = []
    for _ in range(random.randint(1, 3)):
        path = random.choice(NAMES)
        data = random.randbytes(random.choice([0, 5, 60, 700]))
        if path not in after:
            writes.append(CreateNode(path, data))
            after[path] = (data, 0)
        elif random.random() < 0.3:
            writes.append(DeleteNode(path, after[path][1]))
            del after[path]
        else:
            writes.append(UpdateNode(path, data, after[path][1]))
            after[path] = (data, after[path][1] + 1)
    return writes, after


def contents(store: LocalStore) -> Model:
    return {node.path: (node.data, node.version) for node in store.scan("topics")}


def run_until_the_power_goes(disk: CrashDisk, model: Model, random: Random) -> list[Model]:
    """What may be there after the crash: the state before the last commit, or after it."""
    candidates = [model]
    try:
        store = LocalStore.open(disk, HERE)
        assert contents(store) == model
        for _ in range(30):
            writes, after = some_writes(random, model)
            candidates = [model, after]
            try:
                store.commit(writes)
            except StorageError:
                assert contents(store) == model
                return candidates
            model, candidates = after, [after]
        store.close()
    except (PowerLoss, StorageError):
        pass  # the power went, or the store could not even be opened
    return candidates


@pytest.mark.parametrize("decade", range(10))
def test_what_was_committed_survives_any_crash(decade):
    for seed in range(decade * 60, decade * 60 + 60):
        random = Random(seed)
        disk = CrashDisk()
        model: Model = {}
        for _ in range(4):
            point = random.randint(1, 40)
            fault = disk.inject(_fault_after(point, random))
            candidates = run_until_the_power_goes(disk, model, random)
            fault.times = 0
            disk.crash(random)
            found = contents(LocalStore.open(disk, HERE))
            assert found in candidates, f"seed {seed}"
            model = found


def _fault_after(mutations: int, random: Random) -> Fault:
    """The power goes, or a call fails, so many mutations from now."""
    left = [mutations]

    def due(call):
        if call.mutates:
            left[0] -= 1
        return call.mutates and left[0] <= 0

    return Fault(None if random.random() < 0.7 else 5, due)
