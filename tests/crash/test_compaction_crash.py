"""Compaction interrupted at any call to the disk.

A random history is written and synced; nothing of it may ever be lost. Then compaction runs and the
power goes, or the disk fails, at one call. What must hold after the log is opened again, in the
words of `CompactionModel`:

- `check_meaning`: whatever is there was written like that, and every key has its newest value.
  In particular a deleted key does not come back because a tombstone went before what it deletes.
- `check_transactions`, `check_producers`: what was decided stays decided, sequences go on.
- Lookups through the indexes agree with a walk from the start.
- No file of an unfinished compaction is left, and the next compaction gets to the same end.

A failing seed is in the test's name: run that test alone to replay it. More seeds:
HEADRACE_CRASH_SEEDS=1000.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from headrace.log.compaction.compaction_scheduler import CompactionScheduler
from headrace.log.compaction.compactor import Compactor
from headrace.log.log_directory import LogDirectory
from headrace.model.clock import ManualClock
from headrace.model.error import CompactionStopped, StorageError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.compression import Codec
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault, PowerLoss
from testkit.sample.keyed_batch import KeyedRecord
from testkit.simulation.compaction_model import CompactionModel

DIRECTORY = Path("/data")
PARTITION = TopicPartition("accounts", 0)
SEEDS = range(int(os.environ.get("HEADRACE_CRASH_SEEDS", "16")))
CRASHES_PER_SEED = 8
CONFIG = LogConfig(
    cleanup_policy=("compact",),
    delete_retention_ms=1000,
    index_interval_bytes=64,
    min_cleanable_dirty_ratio=0.0,
    segment_bytes=2048,
    file_delete_delay_ms=0,
)
KEYS = [b"a", b"b", b"c", b"d", b"e"]


class Machine:
    """A disk with one log directory, and what runs on it until the power goes."""

    def __init__(self, disk: CrashDisk, clock: ManualClock) -> None:
        self.disk = disk
        self.clock = clock
        self.directory = LogDirectory.open(
            DIRECTORY,
            configs=lambda topic: CONFIG,
            filesystem=disk,
            clock=clock,
            recovery_threads=1,
            background=False,
        )
        self.log = self.directory.create(PARTITION)
        self.log.set_high_watermark(self.log.log_end_offset)
        self.scheduler = CompactionScheduler(self.directory.storage, DIRECTORY, lambda: [self.log])
        # Room for three keys of five: a log takes several rounds.
        self.compactor = Compactor(clock, memory_bytes=4 * 24, chunk_bytes=1024)

    def clean(self) -> int:
        """Compact until nothing is dirty; how many rounds that took."""
        rounds = 0
        while self.scheduler.run_once(self.compactor) is not None:
            rounds += 1
            assert rounds < 500, "compaction does not come to an end"
        return rounds


def write_history(model: CompactionModel, rng: Random, clock: ManualClock, steps: int) -> None:
    for _ in range(steps):
        action = rng.random()
        producer_id = rng.randrange(3)
        records = [
            KeyedRecord(rng.choice(KEYS), rng.choice([None, b"", b"v" * rng.randrange(30)]))
            for _ in range(rng.randrange(1, 6))
        ]
        if action < 0.5:
            model.append(records, codec=rng.choice(list(Codec)))
        elif action < 0.7:
            model.append(records, producer_id=producer_id, transactional=True)
        elif action < 0.85 and model.has_open_transaction(producer_id):
            model.end_transaction(producer_id, commit=rng.random() < 0.5)
        elif action < 0.95:
            model.log.roll()
        else:
            clock.advance(600)


def end_transactions(model: CompactionModel, rng: Random) -> None:
    for producer_id in range(3):
        if model.has_open_transaction(producer_id):
            model.end_transaction(producer_id, commit=rng.random() < 0.5)


def prepare(rng: Random) -> tuple[CrashDisk, CompactionModel, int, int]:
    """A disk with something to compact, its history, the time, and how many calls it will take."""
    while True:
        prepared, history, now_ms = write(rng)
        mutations = count_mutations(prepared, now_ms)
        if mutations:
            return prepared, history, now_ms, mutations


def write(rng: Random) -> tuple[CrashDisk, CompactionModel, int]:
    """A history that is partly compacted, partly dirty, and synced in any case."""
    clock = ManualClock()
    machine = Machine(CrashDisk(), clock)
    model = CompactionModel(machine.log)
    for _ in range(3):
        write_history(model, rng, clock, 12)
        machine.log.roll()
        if rng.random() < 0.5:
            machine.clean()
            clock.advance(rng.choice([0, 1500]))
    if rng.random() < 0.7:
        end_transactions(model, rng)
    machine.log.roll()
    machine.log.flush()
    if rng.random() < 0.5:
        machine.directory.checkpoint()
    machine.disk.sync_all()
    return machine.disk, model, clock.wall_ms()


def check(model: CompactionModel) -> None:
    model.check_meaning()
    model.check_transactions()
    model.check_producers()
    check_indexes(model)


def check_indexes(model: CompactionModel) -> None:
    """Asking for any offset gives the batch that a walk from the start finds for it."""
    batches = [batch.head for batch in model.read()]
    for offset in range(model.log.log_start_offset, model.log.log_end_offset):
        following = [head for head in batches if head.last_offset >= offset]
        found = model.log.read(offset, 1, max_offset=model.log.log_end_offset)
        if following:
            assert found.first_offset == following[0].base_offset
        else:
            assert found.size == 0


def leftovers(disk: CrashDisk) -> list[str]:
    names = disk.list(DIRECTORY / str(PARTITION))
    return [name for name in names if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("seed", SEEDS)
def test_power_loss_anywhere_in_a_compaction_loses_nothing(seed: int) -> None:
    rng = Random(seed)
    prepared, history, now_ms, mutations = prepare(rng)
    for _ in range(CRASHES_PER_SEED):
        disk = prepared.fork()
        machine = Machine(disk, ManualClock(now_ms))
        disk.inject(Fault.at_mutation(disk.mutations + rng.randrange(1, mutations + 2)))
        with suppress(PowerLoss):
            machine.clean()
        disk.crash(rng)
        machine = Machine(disk, ManualClock(now_ms))
        model = history.on(machine.log)
        assert leftovers(disk) == []
        check(model)

        machine.clean()
        check(model)
        machine.clock.advance(2000)
        model.append([KeyedRecord(b"more", b"dirt")])
        machine.log.roll()
        machine.clean()
        check(model)


def count_mutations(prepared: CrashDisk, now_ms: int) -> int:
    disk = prepared.fork()
    machine = Machine(disk, ManualClock(now_ms))
    before = disk.mutations
    machine.clean()
    return disk.mutations - before


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failing_call_in_a_compaction_loses_nothing(seed: int, error: int) -> None:
    rng = Random(seed)
    prepared, history, now_ms, mutations = prepare(rng)
    for _ in range(2):
        disk = prepared.fork()
        machine = Machine(disk, ManualClock(now_ms))
        disk.inject(
            Fault.at_mutation(disk.mutations + rng.randrange(1, mutations + 1), error=error)
        )
        try:
            machine.clean()
        except (StorageError, CompactionStopped):
            if machine.directory.offline is None:
                check(history.on(machine.log))
        disk.faults.clear()
        machine.directory.close()

        machine = Machine(disk, ManualClock(now_ms))
        model = history.on(machine.log)
        check(model)
        machine.clean()
        check(model)
