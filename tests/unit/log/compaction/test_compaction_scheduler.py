from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from headrace.log.compaction.compaction_scheduler import CompactionScheduler
from headrace.log.compaction.compactor import Compactor
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import ManualClock
from headrace.model.error import CompactionStopped, StorageError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import build_head
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch, read_batches

PATH = Path("/logs")
CONFIG = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.3)
PLAIN = LogConfig()


class Shop:
    """A log directory with its cleaner."""

    def __init__(self, disk: CrashDisk) -> None:
        self.disk = disk
        self.clock = ManualClock()
        self.directory = LogDirectory.open(
            PATH,
            configs=lambda topic: PLAIN if topic == "plain" else CONFIG,
            filesystem=disk,
            clock=self.clock,
            background=False,
            recovery_threads=1,
        )
        self.scheduler = CompactionScheduler(self.directory.storage, PATH, self.logs)
        self.compactor = Compactor(self.clock, memory_bytes=1 << 16)

    def logs(self) -> list[PartitionLog]:
        return [self.directory.get(partition) for partition in self.directory.partitions]

    def log(self, topic: str) -> PartitionLog:
        return self.directory.create(TopicPartition(topic, 0))

    def fill(self, topic: str, count: int) -> PartitionLog:
        """Write the same key `count` times, then start a new segment."""
        log = self.log(topic)
        for number in range(count):
            log.append(keyed_batch([KeyedRecord(b"k", b"%d" % number)]), 0, from_client=False)
        log.set_high_watermark(log.log_end_offset)
        log.roll()
        return log

    def clean(self) -> str | None:
        stats = self.scheduler.run_once(self.compactor)
        return None if stats is None else stats.partition.topic


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop(CrashDisk())
    yield shop
    shop.disk.faults.clear()
    shop.directory.close()


def count(log: PartitionLog) -> int:
    data = log.read(log.log_start_offset, 1 << 20).read()
    return sum(len(batch.records) for batch in read_batches(data))


def test_the_dirtiest_log_comes_first(shop: Shop) -> None:
    shop.fill("half", 10)
    assert shop.clean() == "half"
    shop.fill("half", 2)
    shop.fill("all", 3)

    assert [shop.clean(), shop.clean(), shop.clean()] == ["all", "half", None]


def test_a_log_below_the_dirty_ratio_waits(shop: Shop) -> None:
    log = shop.log("wide")
    keys = [KeyedRecord(b"%d" % number, b"v" * 50) for number in range(50)]
    log.append(keyed_batch(keys), 0, from_client=False)
    log.set_high_watermark(50)
    log.roll()
    assert shop.clean() == "wide"

    shop.fill("wide", 2)

    assert shop.clean() is None


def test_a_topic_that_is_not_compacted_is_left_alone(shop: Shop) -> None:
    shop.fill("plain", 5)

    assert shop.clean() is None


def test_the_progress_is_remembered_over_a_restart(shop: Shop) -> None:
    shop.fill("all", 5)
    shop.clean()
    shop.directory.close()

    again = Shop(shop.disk)

    assert again.scheduler.cleanable(again.log("all")).first_dirty == 5
    again.directory.close()
    shop.directory = again.directory


def test_a_log_that_cannot_be_compacted_is_set_aside(shop: Shop) -> None:
    broken = b"no record"
    log = shop.log("broken")
    log.append(
        build_head(broken, last_offset_delta=0, record_count=1) + broken, 0, from_client=False
    )
    log.set_high_watermark(1)
    log.roll()
    shop.fill("all", 5)

    assert [shop.clean(), shop.clean()].count("all") == 1
    assert "do not parse" in shop.scheduler.uncleanable[log.partition]
    assert shop.clean() is None


def test_a_truncated_log_is_dirty_from_there_on(shop: Shop) -> None:
    log = shop.log("all")
    for number in range(5):
        log.append(keyed_batch([KeyedRecord(b"%d" % number, b"v")]), 0, from_client=False)
    log.set_high_watermark(5)
    log.roll()
    assert shop.clean() == "all"

    log.truncate_to(3)
    shop.fill("all", 5)

    assert shop.scheduler.cleanable(log).first_dirty == 3


@pytest.mark.parametrize("at", range(4))  # what comes before the first exchange of segments
def test_a_truncation_during_a_round_costs_no_record(shop: Shop, at: int) -> None:
    """The second segment has a newer value of the key. When it goes, the older one counts again."""
    log = shop.fill("all", 5)
    shop.fill("all", 5)
    # Segments of 5 batches are not joined: the first is exchanged before the second.
    log.config = LogConfig(
        cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.3, segment_bytes=500
    )
    reads = iter(range(100))

    def truncate(size_bytes: int) -> None:
        if next(reads) == at:
            log.truncate_to(5)

    with suppress(CompactionStopped):
        shop.scheduler.run_once(Compactor(shop.clock, memory_bytes=1 << 16, on_bytes=truncate))

    assert next(reads) > at
    assert log.log_end_offset == 5
    left = log.read(0, 1 << 20, max_offset=5).read()
    values = [record.value for batch in read_batches(left) for record in batch.records]
    assert values[-1:] == [b"4"]
    assert shop.scheduler.cleanable(log).first_dirty <= 5


def test_truncation_above_the_progress_changes_nothing(shop: Shop) -> None:
    log = shop.fill("all", 5)
    shop.clean()

    shop.scheduler.truncated(log.partition, 9)

    assert shop.scheduler.cleanable(log).first_dirty == 5


def test_a_new_log_of_the_same_name_has_no_progress(shop: Shop) -> None:
    log = shop.fill("all", 5)
    shop.clean()
    with shop.scheduler.paused(log.partition):
        shop.directory.delete(log.partition)
        shop.scheduler.forget(log.partition)

    again = shop.fill("all", 9)

    assert shop.scheduler.cleanable(again).first_dirty == 0


def test_a_paused_log_is_not_compacted(shop: Shop) -> None:
    log = shop.fill("all", 5)

    with shop.scheduler.paused(log.partition):
        assert shop.clean() is None

    assert shop.clean() == "all"


def test_pausing_stops_the_compaction_that_runs_and_waits_for_it(shop: Shop) -> None:
    log = shop.fill("all", 5)
    reached, go_on = Event(), Event()

    def wait(size_bytes: int) -> None:
        reached.set()
        assert go_on.wait(90)

    stopped: list[CompactionStopped] = []

    def clean() -> None:
        try:
            shop.scheduler.run_once(Compactor(shop.clock, on_bytes=wait))
        except CompactionStopped as error:
            stopped.append(error)

    thread = Thread(target=clean)
    thread.start()
    assert reached.wait(90)
    pausing = Thread(target=lambda: shop.scheduler.paused(log.partition).__enter__())
    pausing.start()
    assert pausing.is_alive()
    go_on.set()
    pausing.join(90)
    thread.join(90)

    assert stopped
    assert count(log) == 5


def test_two_threads_take_different_logs(shop: Shop) -> None:
    shop.fill("all", 5)
    inside: list[str | None] = []

    def other(size_bytes: int) -> None:
        if not inside:
            inside.append("asked")
            inside.append(shop.clean())

    shop.scheduler.run_once(Compactor(shop.clock, on_bytes=other))

    assert inside == ["asked", None]


def test_a_failing_disk_takes_the_directory_offline(shop: Shop) -> None:
    shop.fill("all", 5)
    shop.disk.inject(Fault(when=lambda call: call.path.name.endswith(".cleaned")))

    with pytest.raises(StorageError):
        shop.clean()

    assert shop.directory.offline is not None


def test_the_checkpoint_is_written_as_kafka_names_it(shop: Shop) -> None:
    shop.fill("all", 5)

    shop.clean()

    assert shop.disk.read_bytes(PATH / "cleaner-offset-checkpoint") == b"0\n1\nall 0 5\n"
