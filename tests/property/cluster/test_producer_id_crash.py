"""No producer id is given twice, however often the broker loses its power."""

from pathlib import Path
from random import Random

from headrace.cluster.local_store import LocalStore
from headrace.model.error import StorageError
from headrace.model.ids import BrokerId
from headrace.transactions.producer_ids import ProducerIds, claim_block
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault, PowerLoss


def give_out_until_the_power_goes(disk: CrashDisk, given: list[int], count: int) -> None:
    try:
        store = LocalStore.open(disk, Path("/data/cluster"))
        ids = ProducerIds()
        for _ in range(count):
            if ids.wants_block:
                ids.add_block(claim_block(store, BrokerId(1)))
            given.append(ids.take())
    except (PowerLoss, StorageError):
        pass


def test_ids_are_unique_over_any_number_of_crashes():
    for seed in range(60):
        random = Random(seed)
        disk = CrashDisk()
        given: list[int] = []
        for _ in range(6):
            left = [random.randint(1, 14)]

            def due(call, left=left):
                left[0] -= call.mutates
                return call.mutates and left[0] <= 0

            fault = disk.inject(Fault(None, due))
            give_out_until_the_power_goes(disk, given, random.randint(1, 4000))
            fault.times = 0
            disk.crash(random)
        give_out_until_the_power_goes(disk, given, 10)

        assert len(given) == len(set(given)), f"seed {seed}"
        assert len(given) >= 10
