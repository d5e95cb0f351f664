"""Compaction of several log directories."""

from pathlib import Path

from headrace.broker.operation.compaction_worker import CompactionWorker
from headrace.log.log_directory import LogDirectory
from headrace.log.offset_checkpoint import CLEANER_NAME
from headrace.model.clock import ManualClock
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch

CLICKS = TopicPartition("clicks", 0)
CONFIG = LogConfig(cleanup_policy=("compact",))


def dirty_directory(path: str) -> LogDirectory:
    directory = LogDirectory.open(
        Path(path), configs=lambda _: CONFIG, filesystem=CrashDisk(), background=False
    )
    log = directory.create(CLICKS)
    for number in range(5):
        log.append(keyed_batch([KeyedRecord(b"k", b"%d" % number)]), 0, from_client=False)
    log.set_high_watermark(5)
    log.roll()
    return directory


def test_a_damaged_checkpoint_in_one_directory_takes_no_turn_from_the_next() -> None:
    damaged, sound = dirty_directory("/damaged"), dirty_directory("/sound")
    damaged.storage.filesystem.write_atomically(damaged.path / CLEANER_NAME, b"nonsense\n")
    worker = CompactionWorker(ManualClock(), memory_bytes=1 << 16, bytes_per_second=1e12)
    worker.add(damaged)
    worker.add(sound)
    before = damaged.get(CLICKS).size_bytes

    worker.run()

    assert damaged.get(CLICKS).size_bytes == before
    assert sound.get(CLICKS).size_bytes < before


def test_a_worker_that_was_stopped_begins_no_round() -> None:
    directory = dirty_directory("/logs")
    worker = CompactionWorker(ManualClock(), memory_bytes=1 << 16, bytes_per_second=1e12)
    worker.add(directory)
    before = directory.get(CLICKS).size_bytes
    worker.stop()

    worker.run()

    assert directory.get(CLICKS).size_bytes == before
