"""A full disk, wherever it is met: the directory stays online, and goes on when there is room."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.cluster.topic import random_topic_id
from headrace.log.log_directory import LogDirectory
from headrace.log.offset_checkpoint import LOG_START_NAME, RECOVERY_POINT_NAME, REPLICATION_NAME
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import ManualClock
from headrace.model.error import DiskFull, StorageError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill

CLICKS = TopicPartition("clicks", 0)
NEEDS_ROOM = frozenset({"create", "make_directory", "pwritev"})


class Broker:
    """One log directory on a disk that can be full."""

    def __init__(self, disk: CrashDisk, **settings: object) -> None:
        self.disk = disk
        self.clock = ManualClock()
        self.config = LogConfig(**{"index_interval_bytes": 0, **settings})  # type: ignore[arg-type]
        self.directory = self._open()
        self.log = self.directory.create(CLICKS)

    def _open(self) -> LogDirectory:
        return LogDirectory.open(
            Path("/data"),
            filesystem=self.disk,
            clock=self.clock,
            configs=lambda _: self.config,
            background=False,
        )

    def full(self, error: int = errno.ENOSPC, where: str = "") -> Fault:
        """Fill the disk, for the files whose path holds `where`."""

        def when(call: Call) -> bool:
            return call.name in NEEDS_ROOM and where in str(call.path)

        return self.disk.inject(Fault(error, when, times=None, written_bytes=3))

    def room(self) -> None:
        self.disk.faults.clear()

    def restart(self) -> PartitionLog:
        """Start again after a crash, and return the log."""
        self.disk.crash(Random(1))
        self.directory = self._open()
        return self.directory.get(CLICKS)


@pytest.fixture
def broker() -> Broker:
    return Broker(CrashDisk())


FULL = [errno.ENOSPC, errno.EDQUOT]


@pytest.mark.parametrize("error", FULL)
@pytest.mark.parametrize(
    "work",
    [
        lambda broker: broker.log.flush(),
        lambda broker: broker.directory.checkpoint(),
        lambda broker: broker.log.roll(),
        lambda broker: broker.log.delete_records(2),
        lambda broker: broker.log.truncate_to(2),
        lambda broker: broker.log.truncate_fully_and_start_at(50),
    ],
    ids=["flush", "checkpoint", "roll", "delete_records", "truncate", "restart_at"],
)
def test_work_that_finds_no_room_is_repeated(
    broker: Broker, work: Callable[[Broker], object], error: int
) -> None:
    fill(broker.log, 5)
    broker.log.set_high_watermark(5)
    broker.log.flush()
    broker.directory.checkpoint()
    fill(broker.log, 1)
    broker.log.set_high_watermark(6)
    before = (broker.log.log_start_offset, broker.log.log_end_offset, broker.log.high_watermark)

    broker.full(error)
    with pytest.raises(DiskFull, match="no room"):
        work(broker)
    assert broker.directory.offline is None
    broker.log.assert_order()
    assert before == (
        broker.log.log_start_offset,
        broker.log.log_end_offset,
        broker.log.high_watermark,
    )
    with pytest.raises(DiskFull):
        broker.log.append(sample_batch(b"refused"), 0)

    broker.room()
    work(broker)
    broker.log.assert_order()
    base = broker.log.append(sample_batch(b"accepted"), 0).base_offset
    assert base == broker.log.log_end_offset - 1
    broker.log.flush()
    broker.directory.checkpoint()
    end = broker.log.log_end_offset
    assert broker.restart().log_end_offset == end


def count_syncs(disk: CrashDisk) -> list[Call]:
    """Return a list that grows with each sync of a file."""
    seen: list[Call] = []

    def when(call: Call) -> bool:
        if call.name == "sync":
            seen.append(call)
        return False

    disk.inject(Fault(errno.EIO, when, times=None))
    return seen


def test_a_batch_of_which_a_part_was_written_is_cut_off_without_waiting_for_the_disk(
    broker: Broker,
) -> None:
    fill(broker.log, 3)
    broker.log.sync()
    broker.full()
    syncs = count_syncs(broker.disk)
    with pytest.raises(DiskFull):
        broker.log.append(sample_batch(b"refused"), 0)

    assert syncs == []
    assert broker.restart().log_end_offset == 3


@pytest.mark.parametrize("end", ["roll", "flush", "close"])
def test_what_was_cut_off_is_durable_before_anything_behind_it(end: str) -> None:
    """A crash may bring the part of a batch back. At the end of the log recovery cuts it off."""
    for seed in range(30):
        case = Broker(CrashDisk(), segment_bytes=400)
        fill(case.log, 2)
        case.log.flush()
        case.disk.sync_all()
        case.full(where=".log")
        with pytest.raises(DiskFull):
            case.log.append(sample_batch(b"refused"), 0)
        case.room()

        if end == "roll":
            case.log.append(sample_batch(b"x" * 350), 0)
            assert case.log.sync() == 3
            assert len(case.log.segments) == 2
        elif end == "flush":
            case.log.flush()
        else:
            case.directory.close()

        case.disk.crash(Random(seed))
        assert case._open().get(CLICKS).log_end_offset == (3 if end == "roll" else 2)


def test_a_sync_that_ran_across_a_refused_write_leaves_the_segment_unsynced(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker.log, 3)
    segment = broker.log.segments[0]
    broker.full()

    def sync_late() -> None:
        with pytest.raises(DiskFull):
            broker.log.append(sample_batch(b"refused"), 0)

    with monkeypatch.context() as patch:
        patch.setattr(type(segment), "sync", lambda _: sync_late())
        broker.log.sync()
    broker.room()

    assert segment.is_unsynced
    broker.log.sync()
    assert not segment.is_unsynced


def test_a_whole_batch_of_an_append_that_failed_does_not_come_back(broker: Broker) -> None:
    fill(broker.log, 3)
    broker.log.sync()
    one = sample_batch(b"refused")
    syncs = count_syncs(broker.disk)
    needs_room = Fault(
        errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=len(one) + 3
    )
    broker.disk.inject(needs_room)
    with pytest.raises(DiskFull):
        broker.log.append(one + sample_batch(b"refused, too"), 0, from_client=False)

    assert len(syncs) == 1
    assert broker.restart().log_end_offset == 3


def test_a_follower_does_not_wait_for_its_full_disk(broker: Broker) -> None:
    fill(broker.log, 3)
    broker.log.sync()
    batches = [sample_batch(b"again", base_offset=3 + each) for each in range(2)]
    syncs = count_syncs(broker.disk)
    broker.disk.inject(
        Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=len(batches[0]) + 3)
    )
    with pytest.raises(DiskFull):
        broker.log.append_as_follower(b"".join(batches))

    assert syncs == []
    assert broker.log.log_end_offset == 3
    broker.log.append_as_follower(b"".join(batches))
    assert broker.log.log_end_offset == 5


def test_an_index_without_room_costs_no_append(broker: Broker) -> None:
    fill(broker.log, 60)
    broker.full(where="index")

    fill(broker.log, 40)

    assert (broker.log.log_end_offset, broker.directory.offline) == (100, None)
    with pytest.raises(DiskFull):
        broker.log.flush()
    broker.room()
    broker.log.set_high_watermark(100)
    assert broker.log.flush() == 100
    broker.directory.checkpoint()
    log = broker.restart()
    assert broker.directory.recovered == {}
    log.segments[0].offset_index.check()
    found = log.segments[0].find(77)
    assert found is not None
    assert found.base_offset == 77


def test_an_abort_marker_without_room_for_its_entry_is_remembered(broker: Broker) -> None:
    log = broker.log
    for producer_id in (7, 8):
        batch = sample_batch(
            b"a", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
        )
        log.append(batch, 0)
    broker.full(where="txnindex")
    log.append_marker(7, 0, 0, commit=False, coordinator_epoch=0)
    log.append_marker(8, 0, 0, commit=False, coordinator_epoch=0)
    assert broker.directory.offline is None
    log.set_high_watermark(4)

    broker.room()
    log.flush()
    broker.directory.checkpoint()

    for each in (log, broker.restart()):
        aborted = each.aborted_transactions(0, 4)
        assert [entry.producer_id for entry in aborted] == [7, 8]


def test_a_roll_without_room_refuses_the_append_and_no_more() -> None:
    broker = Broker(CrashDisk(), segment_bytes=400)
    fill(broker.log, 3)
    broker.full(where=".log")
    with pytest.raises(DiskFull):
        fill(broker.log, 10)
    end = broker.log.log_end_offset
    assert broker.directory.offline is None

    broker.room()
    fill(broker.log, 10)

    assert broker.log.log_end_offset == end + 10
    assert broker.restart().log_end_offset >= end


def test_maintenance_goes_on_with_the_other_logs(broker: Broker) -> None:
    other = broker.directory.create(TopicPartition("other", 0))
    broker.config = LogConfig(retention_ms=1000, file_delete_delay_ms=0)
    broker.directory.configure()
    for log in (broker.log, other):
        fill(log, 2)
        log.roll()
        fill(log, 2)
        log.set_high_watermark(4)
        log.flush()
    broker.directory.checkpoint()
    broker.clock.advance(10_000)
    broker.full(where="clicks-0")

    with pytest.raises(DiskFull):
        broker.directory.maintain()

    assert other.log_start_offset > 0
    broker.room()
    broker.directory.maintain()
    assert broker.log.log_start_offset > 0


def test_a_stop_on_a_full_disk_leaves_a_directory_that_opens(broker: Broker) -> None:
    fill(broker.log, 3)
    broker.log.sync()
    broker.full()
    broker.directory.close()
    broker.room()

    assert broker.restart().log_end_offset == 3


@pytest.mark.parametrize("error", FULL)
def test_a_sync_that_fails_for_want_of_room_is_never_repeated(broker: Broker, error: int) -> None:
    """The kernel may have dropped the pages that it had no room for."""
    fill(broker.log, 3)
    broker.disk.inject(Fault(error, lambda call: call.name == "sync"))
    with pytest.raises(StorageError, match="cannot sync"):
        broker.log.sync()
    assert broker.directory.offline is not None


@pytest.mark.parametrize("error", FULL)
def test_a_topic_id_that_could_not_be_synced_is_never_synced_again(
    broker: Broker, error: int
) -> None:
    new = broker.directory.create(TopicPartition("clicks", 1), random_topic_id())
    fill(new, 1)
    broker.disk.inject(
        Fault(
            error, lambda call: call.name == "sync" and call.path.name.startswith("partition.meta")
        )
    )
    with pytest.raises(StorageError, match="cannot sync"):
        new.sync()
    assert broker.directory.offline is not None


def test_a_log_that_is_deleted_without_room_is_gone_and_leaves_no_offsets(broker: Broker) -> None:
    fill(broker.log, 5)
    broker.log.flush()
    broker.log.delete_records(3)
    broker.directory.checkpoint()
    broker.full(where="checkpoint")

    broker.directory.delete(CLICKS)

    assert broker.directory.offline is None
    # Its offsets are still in the files: a crash would give them to a new log of that name.
    with pytest.raises(DiskFull):
        broker.directory.create(CLICKS)
    broker.room()
    again = broker.directory.create(CLICKS)
    assert (again.log_start_offset, again.recovery_point) == (0, 0)
    broker.directory.checkpoint()
    broker.clock.advance(10**9)
    assert broker.directory.remove_deleted() == 1


def full_rename(disk: CrashDisk, name: str) -> None:
    def when(call: Call) -> bool:
        return call.name == "replace" and call.path.name == name

    disk.inject(Fault(errno.ENOSPC, when, times=None))


@pytest.mark.parametrize("leave", [LogDirectory.delete, LogDirectory.set_aside])
def test_a_log_that_cannot_be_renamed_keeps_its_records_and_its_topic(
    broker: Broker, leave: Callable[..., None]
) -> None:
    directory, other = broker.directory, TopicPartition("clicks", 1)
    old, new = random_topic_id(), random_topic_id()
    left = TopicPartition("left", 0)
    for name in (left, other):
        fill(directory.create(name, old), 5)
    full_rename(broker.disk, "clicks-1")

    with pytest.raises(DiskFull):
        leave(directory, left, other)

    assert left not in directory
    assert other in directory
    assert directory.topic_id(other) == old
    directory.create_all("clicks", [1], new)
    assert directory.topic_id(other) == old
    assert directory.get(other).log_end_offset == 5

    broker.room()
    leave(directory, other)
    broker.clock.advance(10**9)
    assert directory.remove_deleted() == (2 if leave is LogDirectory.delete else 0)
    assert directory.create(other, new).log_end_offset == 0


def test_a_new_log_gets_nothing_of_what_lies_in_its_place(broker: Broker) -> None:
    directory, other = broker.directory, TopicPartition("clicks", 1)
    fill(directory.create(other, random_topic_id()), 5)
    directory._known.discard(other)
    directory._logs.pop(other).abandon()

    assert directory.create(other, random_topic_id()).log_end_offset == 0

    assert [name[-6:] for name in broker.disk.list(Path("/data")) if "clicks-1." in name] == [
        "-stray"
    ]


def test_a_creation_that_found_no_room_is_repeated_in_place(broker: Broker) -> None:
    other, topic_id = TopicPartition("clicks", 1), random_topic_id()
    broker.full(where="clicks-1/")
    with pytest.raises(DiskFull):
        broker.directory.create(other, topic_id)
    broker.room()

    assert broker.directory.create(other, topic_id).log_end_offset == 0

    assert not [name for name in broker.disk.list(Path("/data")) if "stray" in name]


def test_a_start_on_a_full_disk_drops_the_offsets_of_a_log_that_is_gone(broker: Broker) -> None:
    gone = TopicPartition("gone", 0)
    fill(broker.log, 3)
    broker.log.sync()
    broker.directory.expect(gone, log_start=5, recovery_point=5, high_watermark=5)
    broker.disk.crash(Random(1))
    broker.full(where="offset-checkpoint")

    broker.directory = broker._open()

    broker.room()
    assert broker.directory.get(CLICKS).log_end_offset == 3
    broker.directory.checkpoint()
    for name in (LOG_START_NAME, RECOVERY_POINT_NAME, REPLICATION_NAME):
        assert b"gone" not in broker.disk.read_bytes(Path("/data") / name)
    assert broker.directory.create(gone).log_start_offset == 0


def test_a_start_on_a_disk_that_deleted_logs_fill_removes_them_first(broker: Broker) -> None:
    other, disk = TopicPartition("clicks", 1), broker.disk
    fill(broker.directory.create(other), 5)
    fill(broker.log, 1)
    broker.directory.get(other).flush()
    broker.log.flush()
    broker.directory.checkpoint()
    broker.full(where="checkpoint")
    broker.directory.delete(other)  # its offsets stay in the files: the start must write those
    broker.room()

    def full(call: Call) -> bool:
        return call.name == "pwritev" and any(
            name.endswith("-delete") for name in disk.list(Path("/data"))
        )

    disk.crash(Random(1))
    disk.inject(Fault(errno.ENOSPC, full, times=None))

    broker.directory = broker._open()

    assert broker.directory.partitions == [CLICKS]
    assert broker.directory.get(CLICKS).log_end_offset == 1
