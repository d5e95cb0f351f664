"""What opening a log believes, repairs and makes durable: the loader's rules, at their borders."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.partition.loader import RecoveryReport, load_log, new_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import CorruptLog
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

CLICKS = TopicPartition("clicks", 0)
CONFIG = LogConfig(segment_bytes=1 << 20, index_interval_bytes=0)
EPOCHS = "leader-epoch-checkpoint"
Load = Callable[..., tuple[PartitionLog, RecoveryReport]]


@pytest.fixture
def load(disk: CrashDisk, directory: Path) -> Load:
    def load(config: LogConfig = CONFIG, **how: int) -> tuple[PartitionLog, RecoveryReport]:
        return load_log(Storage(disk, ManualClock()), CLICKS, directory, config, **how)

    return load


def numbered(sequence: int, producer_id: int = 7) -> bytes:
    return sample_batch(b"v", producer_id=producer_id, producer_epoch=0, sequence=sequence)


def write(log: PartitionLog, count: int, epoch: int = 0) -> None:
    for _ in range(count):
        log.append(sample_batch(b"v", timestamp_ms=SAMPLE_TIME_MS + log.log_end_offset), epoch)


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def snapshots(disk: CrashDisk, directory: Path) -> list[int]:
    return sorted(int(name[:20]) for name in disk.list(directory) if name.endswith(".snapshot"))


def power_off(disk: CrashDisk) -> None:
    """Lose all that was not synced."""
    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)


# -- a log that was never flushed ------------------------------------------------------------------


def test_the_name_of_a_new_directory_is_durable_with_its_first_record(disk: CrashDisk) -> None:
    directory = Path("/data/orders-0")
    disk.make_directory(directory)
    log, _ = load_log(Storage(disk, ManualClock()), CLICKS, directory, CONFIG)
    write(log, 1)
    log.sync()

    power_off(disk)

    assert disk.exists(log.segments[0].path)


@pytest.mark.parametrize("recovery_point", [1, 3])
def test_a_log_that_was_flushed_needs_no_sync_of_its_directory(
    load: Load, disk: CrashDisk, recovery_point: int
) -> None:
    log, _ = load()
    write(log, 3)
    log.close()
    log, _ = load(clean=True, recovery_point=recovery_point)
    write(log, 1)
    before = disk.sync_count

    log.sync()

    assert disk.sync_count == before + 1


@pytest.mark.parametrize("how", ["created", "opened"])
def test_epochs_are_written_by_the_first_flush_and_not_before(
    load: Load, disk: CrashDisk, directory: Path, how: str
) -> None:
    if how == "opened":
        log, _ = load()
    else:
        log = new_log(Storage(disk, ManualClock()), CLICKS, directory, CONFIG, lambda _: None)
    before = disk.calls
    assert log.latest_epoch == -1
    assert how == "opened" or disk.calls == before

    write(log, 1, epoch=4)
    assert not disk.exists(directory / EPOCHS)

    log.flush()
    assert disk.exists(directory / EPOCHS)


# -- where the log starts --------------------------------------------------------------------------


def test_a_log_whose_records_are_all_deleted_keeps_what_it_knows(load: Load) -> None:
    log, _ = load()
    for sequence in range(3):
        log.append(numbered(sequence), 5)
    log.set_high_watermark(3)
    log.delete_records(3)
    log.close()

    log, _ = load(log_start=3, recovery_point=3, clean=True)

    assert bases(log) == [0]
    assert log.log_start_offset == log.log_end_offset == 3
    assert log.append(numbered(2), 5).duplicate


def test_a_start_behind_the_end_leaves_nothing_of_the_log(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    for sequence in range(3):
        log.append(numbered(sequence), 5)
    log.flush()

    log, _ = load(log_start=50, recovery_point=3)

    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (50, 50, 3)
    assert log.producer_entries() == []
    assert snapshots(disk, directory) == []
    power_off(disk)
    assert [name for name in disk.list(directory) if name.endswith(".log")] == [
        "00000000000000000050.log"
    ]


def test_segments_below_what_is_needed_go(load: Load, disk: CrashDisk, directory: Path) -> None:
    log, _ = load()
    for _ in range(3):
        write(log, 10)
        log.flush()
        log.roll()

    log, _ = load(log_start=30, recovery_point=30, clean=True)

    assert bases(log) == [30]
    assert not disk.exists(directory / "00000000000000000020.log")


def test_a_segment_below_the_start_stays_while_no_snapshot_has_its_producers(load: Load) -> None:
    log, _ = load()
    log.append(numbered(0), 0)
    log.roll()
    write(log, 2)
    log.set_high_watermark(3)
    log.sync()

    log, _ = load(log_start=1)

    assert (bases(log), log.log_start_offset) == ([0, 1], 1)
    assert log.append(numbered(0), 0).duplicate


@pytest.mark.parametrize(
    ("log_start", "entries"), [(5, ((1, 0), (2, 5))), (7, ((2, 5),)), (10, ((2, 5),))]
)
def test_epochs_below_the_start_go_but_for_the_last_one(
    load: Load, log_start: int, entries: tuple[tuple[int, int], ...]
) -> None:
    log, _ = load()
    write(log, 5, epoch=1)
    write(log, 5, epoch=2)
    log.close()

    log, _ = load(log_start=log_start, recovery_point=10, clean=True)

    assert log.epochs.entries == entries


def test_a_log_that_ends_below_its_start_has_no_epochs_any_more(load: Load) -> None:
    """A follower began again at the leader's log start, and crashed before its files were gone."""
    log, _ = load()
    write(log, 5, epoch=1)
    log.close()

    log, _ = load(log_start=7, recovery_point=5, clean=True)

    assert (log.log_end_offset, log.epochs.entries) == (7, ())

    # Killed before anything else is flushed.
    log, _ = load(log_start=7, recovery_point=5)

    assert (log.log_end_offset, log.epochs.entries) == (7, ())


# -- after a clean stop ----------------------------------------------------------------------------


def test_a_clean_stop_is_believed(load: Load) -> None:
    log, _ = load()
    log.append(numbered(0), 3)
    write(log, 4, epoch=3)
    log.close()

    log, recovered = load(clean=True, recovery_point=2)

    assert recovered == RecoveryReport()
    assert (log.log_end_offset, log.recovery_point, log.synced_offset) == (5, 5, 5)
    assert log.segments[-1].end_offset == 5
    assert log.append(numbered(0), 3).duplicate


def test_a_log_that_was_closed_properly_and_ends_inside_a_batch_is_damaged(
    load: Load, disk: CrashDisk
) -> None:
    log, _ = load()
    write(log, 3)
    log.close()
    path = log.segments[0].path
    disk.open(path).truncate(disk.size(path) - 1)

    with pytest.raises(CorruptLog, match="closed properly"):
        load(clean=True, recovery_point=3)


def test_rebuilt_indexes_are_durable(load: Load, disk: CrashDisk, directory: Path) -> None:
    log, _ = load()
    write(log, 5)
    log.roll()
    write(log, 5)
    log.close()
    for base in (0, 5):
        disk.remove(directory / f"{base:020d}.index")
    disk.sync_all()

    _, recovered = load(clean=True, recovery_point=10)

    assert recovered.rebuilt_indexes == 2
    assert disk.unsynced_bytes(directory / "00000000000000000000.index") == 0
    assert disk.size(directory / "00000000000000000000.index") > 0
    assert disk.size(directory / "00000000000000000000.timeindex") > 0


# -- after a crash ---------------------------------------------------------------------------------


def test_an_epoch_whose_records_were_lost_is_forgotten_and_no_other(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    write(log, 10, epoch=3)
    log.flush()
    write(log, 5, epoch=3)
    log.sync()
    disk.write_atomically(directory / EPOCHS, b"0\n2\n3 0\n5 12\n")
    disk.sync_all()

    log, _ = load(recovery_point=10)

    assert log.epochs.entries == ((3, 0),)


def test_epochs_are_found_in_the_batches(load: Load, disk: CrashDisk, directory: Path) -> None:
    log, _ = load()
    write(log, 2, epoch=1)
    log.append_as_follower(sample_batch(b"old", base_offset=2, leader_epoch=-1))
    write(log, 2, epoch=4)
    log.sync()
    power_off(disk)
    assert not disk.exists(directory / EPOCHS)

    log, _ = load()

    assert log.epochs.entries == ((1, 0), (4, 3))


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1])
def test_an_epoch_in_the_batches_begins_where_the_batch_before_it_ends(
    load: Load, disk: CrashDisk, segment_bytes: int
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=0)
    log, _ = load(config)
    for offset, epoch in [(0, 1), (4, 2), (9, 2), (12, 5)]:
        log.append_as_follower(sample_batch(b"v", base_offset=offset, leader_epoch=epoch))
    log.sync()
    power_off(disk)

    log, _ = load(config)

    assert log.epochs.entries == ((1, 0), (2, 1), (5, 10))


def test_snapshots_behind_the_end_go(load: Load, disk: CrashDisk, directory: Path) -> None:
    log, _ = load()
    write(log, 4)
    log.flush()
    write(log, 4)
    log.sync()
    for offset in (8, 9):
        disk.write_atomically(
            directory / f"{offset:020d}.snapshot",
            disk.read_bytes(directory / "00000000000000000004.snapshot"),
        )
    disk.open(log.segments[0].path).truncate(log.segments[0].size_bytes - 1)
    disk.sync_all()

    log, _ = load(recovery_point=4)

    assert log.log_end_offset == 7
    assert snapshots(disk, directory) == [4, 7]


def test_recovery_owes_a_snapshot_at_the_base_of_each_segment_it_scans(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    log.append(numbered(0), 0)
    log.flush()
    log.roll()
    log.append(numbered(1), 0)
    log.roll()
    log.append(numbered(2), 0)
    log.sync()
    for offset in snapshots(disk, directory)[1:]:
        disk.remove(directory / f"{offset:020d}.snapshot")

    log, _ = load(recovery_point=1)

    assert snapshots(disk, directory) == [1, 2, 3]
    log.truncate_to(2)
    assert [entry.last_sequence for entry in log.producer_entries()] == [1]


def test_what_was_recovered_is_durable_and_need_not_be_again(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    write(log, 6)
    disk.sync_all()

    log, first = load()
    assert first.scanned_bytes == log.size_bytes
    assert log.recovery_point == 6
    power_off(disk)

    log, second = load(recovery_point=6)
    assert (log.log_end_offset, second.scanned_bytes, second.cut_bytes) == (6, 0, 0)


def test_the_last_synced_batch_is_not_scanned_again(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    write(log, 6)
    log.flush()
    tail = log.segments[0].size_bytes
    write(log, 2)
    log.sync()

    log, recovered = load(recovery_point=6)

    assert recovered.scanned_bytes == log.size_bytes - tail
    assert log.log_end_offset == 8


def test_an_end_below_the_recovery_point_is_damage(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    write(log, 3)
    log.flush()
    log.roll()
    disk.sync_all()

    with pytest.raises(CorruptLog, match="ends at offset 3, but everything below 4"):
        load(recovery_point=4)
    assert load(recovery_point=3)[0].log_end_offset == 3


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_a_torn_index_of_the_segment_that_is_scanned_is_made_again(
    load: Load, disk: CrashDisk, directory: Path, kind: str
) -> None:
    log, _ = load()
    write(log, 6)
    log.flush()
    write(log, 2)
    log.sync()
    file = disk.open(directory / f"{0:020d}.{kind}")
    file.pwritev([b"\xff" * 5], file.size())
    disk.sync_all()

    log, recovered = load(recovery_point=6)

    assert recovered.scanned_bytes == log.size_bytes
    log.set_high_watermark(8)
    assert [log.offset_for_timestamp(SAMPLE_TIME_MS + at).offset for at in range(8)] == [*range(8)]


def test_index_entries_of_records_that_were_lost_go(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    write(log, 4)
    log.flush()
    size, entries = log.segments[0].size_bytes, log.segments[0].offset_index.count
    write(log, 4)
    log.segments[0].sync_indexes()
    disk.open(log.segments[0].path).truncate(size)
    disk.sync_all()

    log, _ = load(recovery_point=4)

    assert log.log_end_offset == 4
    assert log.segments[0].offset_index.count <= entries
    assert log.segments[0].time_index.count <= entries
    power_off(disk)
    again, recovered = load(recovery_point=4)
    assert again.segments[0].offset_index.count <= entries
    assert recovered.scanned_bytes == 0


def test_a_transaction_index_that_tore_is_made_again_from_its_segment(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    for producer_id in (1, 2):
        log.append(
            sample_batch(
                b"t", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
            ),
            0,
        )
        log.append_marker(producer_id, 0, 0, commit=False, coordinator_epoch=0)
        log.flush()
    write(log, 1)
    log.sync()
    file = disk.open(directory / f"{0:020d}.txnindex")
    file.pwritev([b"\xff" * 5], file.size())
    disk.sync_all()

    log, _ = load(recovery_point=4)

    assert [each.producer_id for each in log.aborted_transactions(0, 5)] == [1, 2]
    assert sorted(entry.producer_id for entry in log.producer_entries()) == [1, 2]


def test_a_transaction_that_ended_in_lost_records_is_open_again(
    load: Load, disk: CrashDisk
) -> None:
    log, _ = load()
    log.append(
        sample_batch(b"t", producer_id=1, producer_epoch=0, sequence=0, transactional=True), 0
    )
    log.flush()
    size = log.segments[0].size_bytes
    log.append_marker(1, 0, 0, commit=False, coordinator_epoch=0)
    log.segments[0].sync_indexes()
    disk.open(log.segments[0].path).truncate(size)
    disk.sync_all()

    log, _ = load(recovery_point=1)

    assert log.has_open_transaction(1, 0)
    assert log.aborted_transactions(0, 1) == []


# -- damage ----------------------------------------------------------------------------------------


def in_segments(log: PartitionLog, count: int) -> None:
    for number in range(count):
        if number:
            log.roll()
        write(log, 2)


def flip_last_byte(disk: CrashDisk, path: Path) -> None:
    file = disk.open(path)
    at = file.size() - 1
    file.pwritev([bytes([file.pread(1, at)[0] ^ 0xFF])], at)
    disk.sync_all()


def test_damage_one_segment_before_the_last_is_cut_and_two_before_it_is_not(
    load: Load, disk: CrashDisk
) -> None:
    log, _ = load()
    in_segments(log, 3)
    disk.sync_all()
    middle, first = log.segments[1].path, log.segments[0].path
    sizes = [segment.size_bytes for segment in log.segments]

    flip_last_byte(disk, middle)
    log, recovered = load()
    assert (log.log_end_offset, bases(log)) == (3, [0, 2])
    assert recovered.dropped_segments == 1
    assert recovered.cut_bytes == sizes[1] // 2 + sizes[2]

    in_segments(log, 2)
    disk.sync_all()
    assert len(log.segments) == 3
    flip_last_byte(disk, first)
    with pytest.raises(CorruptLog, match="damaged"):
        load()


def test_what_was_cut_stays_cut(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    in_segments(log, 2)
    disk.sync_all()
    first, second = (segment.path for segment in log.segments)
    flip_last_byte(disk, first)

    load()
    power_off(disk)

    assert not disk.exists(second)
    assert disk.size(first) == len(sample_batch(b"v"))


def test_damage_at_the_recovery_point_is_cut_and_below_it_is_not(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    write(log, 3)
    disk.sync_all()
    flip_last_byte(disk, log.segments[0].path)

    with pytest.raises(CorruptLog):
        load(recovery_point=3)
    assert load(recovery_point=2)[0].log_end_offset == 2


def test_a_gap_between_segments_is_a_loss_except_where_compaction_made_one(
    load: Load, disk: CrashDisk
) -> None:
    log, _ = load()
    in_segments(log, 2)
    first = log.segments[0]
    disk.open(first.path).truncate(first.size_bytes // 2)
    disk.sync_all()
    copy = disk.fork()

    log, recovered = load()
    assert (log.log_end_offset, recovered.dropped_segments) == (1, 1)

    compacted = LogConfig(cleanup_policy=("compact",))
    log, recovered = load_log(Storage(copy, ManualClock()), CLICKS, log.path, compacted)
    assert (log.log_end_offset, recovered.dropped_segments) == (4, 0)
