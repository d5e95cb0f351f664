"""Which log belongs to which topic: ids decide, strays are kept, deletion costs once."""

import errno
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import structlog.testing

from headrace.broker.operation.compaction_worker import CompactionWorker
from headrace.broker.replica.log_storage import LogStorage
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.log import log_directory
from headrace.log.filesystem import Disk
from headrace.log.log_directory import LogDirectory
from headrace.log.offset_checkpoint import OffsetCheckpoint
from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.model.clock import SystemClock
from headrace.model.error import DiskFull, StorageError
from headrace.model.ids import BrokerId, TopicPartition
from headrace.testing.readiness import wait_until
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)
ME, OTHER = BrokerId(0), BrokerId(1)

Open = Callable[[], LogStorage]


def topic(name: str, *replicas: BrokerId, partitions: int = 1) -> TopicRecord:
    record = PartitionRecord.on(replicas or (ME,))
    return TopicRecord(name=name, topic_id=random_topic_id(), partitions=(record,) * partitions)


@pytest.fixture
def open_storage(tmp_path: Path) -> Open:
    """Open the directories `a` and `b`; what was open before is closed."""
    storages: list[LogStorage] = []

    def open_storage() -> LogStorage:
        for directory in storages[-1].directories if storages else ():
            directory.close()
        worker = CompactionWorker(SystemClock(), memory_bytes=1 << 20, bytes_per_second=1e9)
        storages.append(LogStorage(ME, worker))
        for name in ("a", "b"):
            storages[-1].add(LogDirectory.open(tmp_path / name, cluster_id="t", background=False))
        return storages[-1]

    return open_storage


def write(storage: LogStorage, record: TopicRecord) -> None:
    log = storage.log_of(TopicPartition(record.name, 0), record.topic_id)
    assert log is not None
    log.append(sample_batch(b"old"), 0)


def by_name(*records: TopicRecord) -> dict[str, TopicRecord]:
    return {record.name: record for record in records}


def directory_with_clicks(storage: LogStorage) -> LogDirectory | None:
    return next((each for each in storage.directories if CLICKS in each), None)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*/*-*") if path.is_dir())


def test_a_damaged_cleaner_checkpoint_does_not_fail_a_deletion(
    tmp_path: Path, open_storage: Open
) -> None:
    """A start sets stray logs aside: it must not fail for what only compaction needs."""
    storage, clicks = open_storage(), topic("clicks")
    storage.make(clicks)
    for folder in ("a", "b"):
        (tmp_path / folder / "cleaner-offset-checkpoint").write_text("garbage")

    storage.delete([(CLICKS, clicks.topic_id)])

    assert directory_with_clicks(storage) is None


def test_a_log_without_its_topic_is_renamed_and_kept(tmp_path: Path, open_storage: Open) -> None:
    storage, kept, gone = open_storage(), topic("kept"), topic("clicks")
    for record in (kept, gone):
        storage.make(record)
    write(storage, gone)

    open_storage().set_strays_aside(by_name(kept))

    storage = open_storage()
    for directory in storage.directories:
        directory.remove_deleted()
    (stray,) = (name for name in names_in(tmp_path) if name.startswith("clicks"))
    assert stray.startswith("clicks-0.") and stray.endswith("-stray")
    assert storage.log_of(TopicPartition("kept", 0), kept.topic_id) is not None


def test_a_replica_that_moved_away_is_a_stray(tmp_path: Path, open_storage: Open) -> None:
    storage, here = open_storage(), topic("clicks")
    storage.make(here)
    moved = TopicRecord(
        name="clicks", topic_id=here.topic_id, partitions=(PartitionRecord.on([OTHER]),)
    )

    storage.set_strays_aside(by_name(moved))

    assert [name[-6:] for name in names_in(tmp_path)] == ["-stray"]


def test_no_log_is_touched_when_the_state_knows_no_topic(
    tmp_path: Path, open_storage: Open
) -> None:
    """A mistyped root of ZooKeeper is an empty cluster."""
    storage, clicks = open_storage(), topic("clicks")
    storage.make(clicks)

    with structlog.testing.capture_logs() as lines:
        storage.set_strays_aside({})

    assert names_in(tmp_path) == ["clicks-0"]
    (line,) = (each for each in lines if each["log_level"] == "error")
    assert line["event"] == "logs_without_topics"
    assert "zookeeper.connect" in line["advice"]


def test_a_topic_that_is_created_again_does_not_get_the_old_log(
    tmp_path: Path, open_storage: Open
) -> None:
    storage, old, new = open_storage(), topic("clicks"), topic("clicks")
    storage.make(old)
    write(storage, old)
    assert storage.lacks(new)
    assert storage.log_of(CLICKS, new.topic_id) is None

    storage.make(new)

    log = storage.log_of(CLICKS, new.topic_id)
    assert log is not None and log.log_end_offset == 0
    assert [name[-6:] for name in names_in(tmp_path)] == ["icks-0", "-stray"]


def test_a_log_without_an_id_belongs_to_the_topic_that_is_there_at_the_start(
    open_storage: Open,
) -> None:
    storage, clicks = open_storage(), topic("clicks")
    storage.directories[0].create(CLICKS)

    storage.set_strays_aside(by_name(clicks))

    assert storage.directories[0].topic_id(CLICKS) == clicks.topic_id
    assert not storage.lacks(clicks)


def test_a_log_without_an_id_is_served_when_the_disk_has_no_room_to_write_it(
    tmp_path: Path, open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: PartitionMetadataFile, *_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    storage, clicks = open_storage(), topic("clicks")
    storage.directories[0].create(CLICKS).append(sample_batch(b"old"), 0)
    with monkeypatch.context() as patch:
        patch.setattr(PartitionMetadataFile, "write", full)
        storage.set_strays_aside(by_name(clicks))
        assert not storage.lacks(clicks)
        storage.make(clicks)
        with pytest.raises(DiskFull):
            storage.directories[0].maintain()
    log = storage.log_of(CLICKS, clicks.topic_id)
    assert log is not None and log.log_end_offset == 1

    storage.directories[0].maintain()

    assert open_storage().directories[0].topic_id(CLICKS) == clicks.topic_id


def test_a_directory_that_was_offline_during_a_deletion_comes_back_with_strays(
    tmp_path: Path, open_storage: Open
) -> None:
    storage, old, new = open_storage(), topic("clicks"), topic("clicks")
    storage.make(old)
    write(storage, old)
    failed = directory_with_clicks(storage)
    assert failed is not None
    failed.storage.fail(StorageError("the disk is gone"))
    storage.delete([(CLICKS, old.topic_id)])
    storage.make(new)
    assert directory_with_clicks(storage) is not failed

    storage = open_storage()
    storage.set_strays_aside(by_name(new))

    log = storage.log_of(CLICKS, new.topic_id)
    assert log is not None and log.log_end_offset == 0
    assert len(list(failed.path.glob("clicks-0.*-stray"))) == 1


@pytest.mark.parametrize("stale", [0, 1])
@pytest.mark.parametrize(
    "current",
    [[(5, 1)], [(2, 0), (1, 1)]],
    ids=["further", "in a later epoch"],
)
def test_of_two_logs_of_a_partition_the_current_one_is_served(
    tmp_path: Path, open_storage: Open, stale: int, current: list[tuple[int, int]]
) -> None:
    """A disk failed, the replica moved away and back to the other one, and the disk is repaired."""
    storage, clicks = open_storage(), topic("clicks")
    old = storage.directories[stale].create(CLICKS, clicks.topic_id)
    for _ in range(4):
        old.append(sample_batch(b"stale"), 0)
    new = storage.directories[1 - stale].create(CLICKS, clicks.topic_id)
    for count, epoch in current:
        for _ in range(count):
            new.append(sample_batch(b"current"), epoch)
    end = new.log_end_offset

    storage = open_storage()
    storage.set_strays_aside(by_name(clicks))

    served = storage.log_of(CLICKS, clicks.topic_id)
    assert served is not None and served.log_end_offset == end
    assert sorted(name[-6:] for name in names_in(tmp_path)) == ["-stray", "icks-0"]


def test_an_older_copy_that_cannot_be_renamed_is_not_served(
    open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, clicks = open_storage(), topic("clicks")
    first, second = storage.directories
    first.create(CLICKS, clicks.topic_id).append(sample_batch(b"stale"), 0)
    for _ in range(3):
        second.create(CLICKS, clicks.topic_id).append(sample_batch(b"current"), 0)

    storage = open_storage()
    with monkeypatch.context() as full:
        full.setattr(Disk, "replace", no_room)
        storage.set_strays_aside(by_name(clicks))

    served = storage.log_of(CLICKS, clicks.topic_id)
    assert served is not None and served.log_end_offset == 3
    assert CLICKS in storage.directories[0]


def test_a_log_moves_to_where_an_older_copy_could_not_be_renamed(
    open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, clicks = open_storage(), topic("clicks")
    first, second = storage.directories
    first.create(CLICKS, clicks.topic_id).append(sample_batch(b"stale"), 0)
    for _ in range(3):
        second.create(CLICKS, clicks.topic_id).append(sample_batch(b"current"), 0)
    storage = open_storage()
    first, second = storage.directories
    with monkeypatch.context() as full:
        full.setattr(Disk, "replace", no_room)
        storage.set_strays_aside(by_name(clicks))
        with pytest.raises(DiskFull):
            storage.move(CLICKS, clicks.topic_id, first)

    assert storage.move(CLICKS, clicks.topic_id, first)
    wait_until(lambda: not storage.moves.of(first), what="the end of the move")

    assert first.offline is None
    assert CLICKS not in second
    served = storage.log_of(CLICKS, clicks.topic_id)
    assert served is not None and served.log_end_offset == 3


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no room")


def test_a_log_that_found_no_room_to_open_is_opened_later(
    open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, clicks = open_storage(), topic("clicks")
    storage.make(clicks)
    storage = open_storage()
    with monkeypatch.context() as full:
        full.setattr(log_directory, "load_log", _full)
        assert storage.log_of(CLICKS, clicks.topic_id) is None
        storage.open_again()
        assert storage.take_opened() == set()

    storage.open_again()

    assert storage.take_opened() == {"clicks"}
    assert storage.log_of(CLICKS, clicks.topic_id) is not None


def _full(*_: object, **__: object) -> None:
    raise DiskFull("no room")


def test_a_deletion_leaves_the_log_of_a_later_topic(open_storage: Open) -> None:
    storage, old, new = open_storage(), topic("clicks"), topic("clicks")
    storage.make(new)

    storage.delete([(CLICKS, old.topic_id)])

    assert not storage.lacks(new)


def test_many_logs_are_deleted_with_one_round_of_checkpoints(
    open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, clicks = open_storage(), topic("clicks", partitions=40)
    storage.make(clicks)
    for index in range(40):
        log = storage.log_of(TopicPartition("clicks", index), clicks.topic_id)
        assert log is not None
        log.append(sample_batch(b"old"), 0)
        log.flush()
    for directory in storage.directories:
        directory.checkpoint()
    written: list[Path] = []
    real = OffsetCheckpoint.write

    def write(self: OffsetCheckpoint, offsets: Mapping[TopicPartition, int]) -> None:
        written.append(self.path)
        real(self, offsets)

    monkeypatch.setattr(OffsetCheckpoint, "write", write)

    storage.delete([(TopicPartition("clicks", index), clicks.topic_id) for index in range(40)])

    assert len(written) == len(set(written)) == 2  # one recovery point file per directory
    assert all(directory.log_count == 0 for directory in storage.directories)
