"""Opening a log after a clean stop, after a crash, and after damage."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.partition.loader import RecoveryReport, load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.producer.producer_replay import replay_producers
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import CorruptLog, LogDirectoryOffline
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import iter_batches
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

CONFIG = LogConfig(segment_bytes=1024, index_interval_bytes=150)
Load = Callable[..., tuple[PartitionLog, RecoveryReport]]


@pytest.fixture
def storage(disk: CrashDisk) -> Storage:
    return Storage(disk, ManualClock())


@pytest.fixture
def load(disk: CrashDisk, directory: Path) -> Load:
    def load(config: LogConfig = CONFIG, **how: int) -> tuple[PartitionLog, RecoveryReport]:
        storage = Storage(disk, ManualClock())
        return load_log(storage, TopicPartition("clicks", 0), directory, config, **how)

    return load


def write(log: PartitionLog, count: int, size: int = 50) -> None:
    for number in range(count):
        log.append(
            sample_batch(b"v" * size, timestamp_ms=SAMPLE_TIME_MS + log.log_end_offset + number), 0
        )


def stored(log: PartitionLog) -> list[int]:
    found: list[int] = []
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, max_offset=log.log_end_offset)
        for batch in iter_batches(piece.read()):
            batch.validate()
            found.append(batch.base_offset)
            offset = batch.next_offset
    return found


def flip(disk: CrashDisk, path: Path, position: int) -> None:
    file = disk.open(path)
    byte = file.pread(1, position)[0]
    file.pwritev([bytes([byte ^ 0xFF])], position)
    file.sync()


def test_an_empty_directory_becomes_an_empty_log(load: Load) -> None:
    log, recovered = load()
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert recovered == RecoveryReport()


def test_after_a_clean_stop_no_batch_below_the_last_index_entry_is_read(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    write(log, 60)
    log.close()
    before = disk.calls

    log, recovered = load(clean=True, recovery_point=60, high_watermark=60)

    assert recovered == RecoveryReport()
    assert log.log_end_offset == 60
    assert disk.calls - before < 20 + len(log.segments)
    assert stored(log) == list(range(60))


def test_after_a_crash_only_what_lies_past_the_recovery_point_is_scanned(
    load: Load, disk: CrashDisk
) -> None:
    log, _ = load()
    write(log, 20)
    log.flush()
    write(log, 2)
    grown = sum(segment.size_bytes - segment.synced_bytes for segment in log.segments)
    disk.sync_all()
    disk.crash(Random(1))

    log, recovered = load(recovery_point=20)

    assert log.log_end_offset == 22
    assert recovered.scanned_bytes == grown
    assert recovered.cut_bytes == 0


def test_a_torn_tail_is_cut_and_counted(load: Load, disk: CrashDisk, directory: Path) -> None:
    log, _ = load()
    write(log, 5)
    log.sync()
    path, size = log.segments[0].path, log.segments[0].size_bytes
    disk.open(path).pwritev([sample_batch(b"torn", base_offset=5)[:40]], size)
    disk.sync_all()
    disk.crash(Random(1))

    log, recovered = load()

    assert recovered.cut_bytes == 40
    assert stored(log) == [0, 1, 2, 3, 4]
    assert disk.size(path) == size
    write(log, 1)
    assert stored(log) == [0, 1, 2, 3, 4, 5]


def test_a_tail_of_zeros_is_cut(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    write(log, 5)
    log.sync()
    path, size = log.segments[0].path, log.segments[0].size_bytes
    disk.open(path).pwritev([bytes(5000)], size)
    disk.sync_all()

    log, recovered = load()

    assert recovered.cut_bytes == 5000
    assert log.log_end_offset == 5


def test_segments_behind_a_torn_one_are_dropped(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    write(log, 3)
    log.roll()
    write(log, 2)
    first, second = log.segments
    disk.sync_all()
    flip(disk, first.path, first.size_bytes - 1)

    log, recovered = load()

    assert stored(log) == [0, 1]
    assert recovered.dropped_segments == 1
    assert not disk.exists(second.path)


def test_damage_below_the_recovery_point_takes_the_directory_offline(
    disk: CrashDisk, load: Load, directory: Path
) -> None:
    log, _ = load()
    write(log, 3)
    log.flush()
    segment = log.segments[0]
    disk.open(segment.path).truncate(segment.size_bytes - 5)
    disk.sync_all()
    storage = Storage(disk, ManualClock())

    with pytest.raises(CorruptLog, match="synced"):
        load_log(storage, TopicPartition("clicks", 0), directory, CONFIG, recovery_point=3)
    with pytest.raises(LogDirectoryOffline):
        storage.check_online()


def test_damage_in_a_segment_that_must_have_been_synced_is_not_cut(
    load: Load, disk: CrashDisk
) -> None:
    log, _ = load()
    for _ in range(3):
        write(log, 3)
        log.roll()
    write(log, 1)
    first = log.segments[0]
    disk.sync_all()
    flip(disk, first.path, first.size_bytes - 1)

    with pytest.raises(CorruptLog, match="damaged"):
        load()
    assert disk.exists(log.segments[-1].path)


def test_a_missing_middle_is_not_a_torn_tail(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    for _ in range(3):
        write(log, 3)
        log.roll()
    write(log, 1)
    disk.sync_all()
    disk.remove(log.segments[1].path)

    with pytest.raises(CorruptLog):
        load()


def test_indexes_are_rebuilt_when_they_are_missing(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    write(log, 30)
    log.close()
    for name in disk.list(directory):
        if name.endswith("index"):
            disk.remove(directory / name)

    log, recovered = load(clean=True, recovery_point=30)

    assert recovered.rebuilt_indexes == len(log.segments)
    log.set_high_watermark(30)
    assert log.offset_for_timestamp(SAMPLE_TIME_MS).offset == 0
    assert log.segments[0].offset_index.count > 1


def test_a_cold_index_that_does_not_hold_is_rebuilt_when_it_is_read(
    load: Load, disk: CrashDisk
) -> None:
    log, _ = load()
    write(log, 30)
    log.close()
    file = disk.open(log.segments[0].offset_index.path)
    file.pwritev([b"\xff" * 3], file.size())

    log, _ = load(clean=True, recovery_point=30)

    assert stored(log) == list(range(30))


def test_producers_and_transactions_are_as_before(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    log.append(
        sample_batch(b"t", producer_id=1, producer_epoch=0, sequence=0, transactional=True), 0
    )
    log.roll()
    log.append(
        sample_batch(b"t", producer_id=2, producer_epoch=5, sequence=0, transactional=True), 0
    )
    log.append_marker(2, 5, 0, commit=False, coordinator_epoch=1)
    log.sync()
    disk.crash(Random(3))

    log, _ = load()

    log.set_high_watermark(log.log_end_offset)
    assert log.has_open_transaction(1, 0) and not log.has_open_transaction(2, 5)
    assert log.last_stable_offset == 0
    assert [each.producer_id for each in log.aborted_transactions(0, 3)] == [2]


def test_what_was_deleted_stays_deleted(load: Load, disk: CrashDisk) -> None:
    log, _ = load()
    write(log, 30)
    first = log.segments[0]
    log.flush()

    log, _ = load(log_start=20, recovery_point=30)

    assert log.log_start_offset == 20
    assert not disk.exists(first.path)
    assert stored(log)[0] == 20


def test_offsets_below_a_start_that_outlived_its_records_are_not_given_again(load: Load) -> None:
    log, _ = load(log_start=50)
    assert log.append(sample_batch(b"a"), 0).base_offset == 50


def test_leftovers_of_deletion_and_compaction_go(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load()
    write(log, 3)
    log.close()
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000001.log.swap",
        "00000000000000000009.index",
        "leader-epoch-checkpoint.tmp",
    ):
        disk.open(directory / name, create=True).pwritev([b"junk"], 0)

    log, _ = load(clean=True, recovery_point=3)

    assert stored(log) == [0, 1, 2]
    assert {name.partition(".")[2] for name in disk.list(directory)} <= {
        "log",
        "index",
        "timeindex",
        "snapshot",
        "",
    }


def test_a_swap_that_was_ready_is_finished(load: Load, disk: CrashDisk, directory: Path) -> None:
    log, _ = load()
    write(log, 3)
    log.roll()
    write(log, 1)
    log.close()
    compacted = sample_batch(b"kept", base_offset=1, leader_epoch=0)
    swap = disk.open(directory / "00000000000000000000.log.swap", create=True)
    swap.pwritev([compacted], 0)
    for suffix in ("index", "timeindex"):
        disk.open(directory / f"00000000000000000000.{suffix}.swap", create=True)

    log, _ = load(clean=True, recovery_point=4)

    log.set_high_watermark(4)
    assert log.read(0, 1 << 20).read() == compacted
    assert log.log_end_offset == 4


def abort_in_two_segments(log: PartitionLog) -> None:
    for producer_id in (1, 2):
        log.append(
            sample_batch(
                b"t", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
            ),
            0,
        )
        log.append_marker(producer_id, 0, 0, commit=False, coordinator_epoch=0)
        if producer_id == 1:
            log.roll()
    log.set_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("kind", ["txnindex", "timeindex", "index"])
@pytest.mark.parametrize("base", [0, 2])
def test_any_index_that_was_damaged_while_we_were_away_is_rebuilt(
    load: Load, disk: CrashDisk, directory: Path, kind: str, base: int
) -> None:
    log, _ = load()
    abort_in_two_segments(log)
    log.close()
    file = disk.open(directory / f"{base:020d}.{kind}")
    file.pwritev([b"\xff" * 5], file.size())

    log, _ = load(clean=True, recovery_point=4)
    write(log, 2)
    log.set_high_watermark(log.log_end_offset)

    assert [each.producer_id for each in log.aborted_transactions(0, 4)] == [1, 2]
    assert log.offset_of_max_timestamp().offset >= 0
    assert stored(log) == [0, 1, 2, 3, 4, 5]
    assert log.apply_retention() == 0


def ended_above_the_high_watermark(log: PartitionLog, *, commit: bool) -> None:
    """Write 0, a transaction's record 1, 2 and the marker 3 in a second segment, then 4."""
    write(log, 1)
    log.append(
        sample_batch(b"t", producer_id=1, producer_epoch=0, sequence=0, transactional=True), 0
    )
    log.roll()
    write(log, 1)
    log.append_marker(1, 0, 0, commit=commit, coordinator_epoch=0)
    log.flush()
    write(log, 1)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("high_watermark", [0, 2, 3])
@pytest.mark.parametrize("clean", [True, False])
def test_a_marker_that_is_not_replicated_is_waited_for_after_a_start(
    load: Load, disk: CrashDisk, high_watermark: int, commit: bool, clean: bool
) -> None:
    log, _ = load()
    ended_above_the_high_watermark(log, commit=commit)
    if clean:
        log.close()
    else:
        disk.sync_all()
        disk.crash(Random(1))

    log, _ = load(clean=clean, recovery_point=5 if clean else 4, high_watermark=high_watermark)

    assert log.last_stable_offset == min(high_watermark, 1)
    log.set_high_watermark(3)
    assert log.last_stable_offset == 1
    log.set_high_watermark(4)
    assert log.last_stable_offset == 4


def test_a_marker_below_the_high_watermark_is_not_waited_for_after_a_start(load: Load) -> None:
    log, _ = load()
    ended_above_the_high_watermark(log, commit=True)
    log.close()

    log, _ = load(clean=True, recovery_point=5, high_watermark=4)

    assert log.last_stable_offset == 4


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_that_is_not_replicated_is_waited_for_after_a_cut(
    load: Load, commit: bool
) -> None:
    log, _ = load()
    ended_above_the_high_watermark(log, commit=commit)
    log.set_high_watermark(3)
    assert log.last_stable_offset == 1

    log.truncate_to(4)

    assert log.last_stable_offset == 1
    log.set_high_watermark(4)
    assert log.last_stable_offset == 4


def torn(disk: CrashDisk, path: Path) -> None:
    """Take the last bytes of a file, as a bad disk may."""
    file = disk.open(path)
    file.truncate(file.size() - 3)
    file.sync()


def in_four_segments(log: PartitionLog) -> None:
    """Write 0 to 79: a transaction's record at 30, its marker at 40, and a new segment every 20."""
    while log.log_end_offset < 80:
        if log.log_end_offset in (20, 40, 60):
            log.roll()
        if log.log_end_offset == 30:
            begun = sample_batch(
                b"t", producer_id=1, producer_epoch=0, sequence=0, transactional=True
            )
            log.append(begun, 0)
        elif log.log_end_offset == 40:
            log.append_marker(1, 0, 0, commit=True, coordinator_epoch=0)
        else:
            write(log, 1)


WIDE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=150)


@pytest.mark.parametrize("broken", ["00000000000000000020.index", "00000000000000000000.index"])
def test_a_broken_index_holds_readers_back_and_the_log_still_opens(
    load: Load, disk: CrashDisk, directory: Path, broken: str
) -> None:
    log, _ = load(WIDE)
    in_four_segments(log)
    log.close()
    disk.remove(directory / "00000000000000000020.snapshot")
    torn(disk, directory / broken)

    log, _ = load(WIDE, clean=True, recovery_point=80, high_watermark=35)

    assert log.last_stable_offset <= 30
    log.set_high_watermark(80)
    assert log.last_stable_offset == 80


@pytest.mark.parametrize("byte", [8, 9, 61, 66, 68, 70])
def test_a_damaged_batch_holds_readers_back_and_the_log_still_opens(
    load: Load, disk: CrashDisk, directory: Path, byte: int
) -> None:
    """Its length, too short or past the end, or the body of the marker."""
    log, _ = load(WIDE)
    in_four_segments(log)
    log.close()
    flip(disk, directory / "00000000000000000040.log", byte)

    log, _ = load(WIDE, clean=True, recovery_point=80, high_watermark=35)

    assert log.last_stable_offset == 0
    log.set_high_watermark(80)
    assert log.last_stable_offset == 80


def test_a_start_does_not_walk_for_minutes(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = load(WIDE)
    in_four_segments(log)
    log.close()
    monkeypatch.setattr("headrace.log.producer.producer_replay._MOST_WALKED_BYTES", 1000)

    log, _ = load(WIDE, clean=True, recovery_point=80, high_watermark=35)

    assert log.last_stable_offset == 0


def test_a_cut_meets_a_broken_index_and_readers_wait(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load(WIDE)
    in_four_segments(log)
    log.close()
    log, _ = load(WIDE, clean=True, recovery_point=80, high_watermark=35)
    torn(disk, directory / "00000000000000000020.index")

    assert log.truncate_to(75)

    assert log.log_end_offset == 75
    assert log.last_stable_offset <= 30
    log.set_high_watermark(75)
    assert log.last_stable_offset == 75


def test_no_reader_sees_half_loaded_producers_while_a_log_is_cut(
    load: Load, disk: CrashDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = load(WIDE)
    in_four_segments(log)
    log.set_high_watermark(35)
    seen: list[int] = []

    def replay(*arguments: object) -> None:
        seen.append(log.last_stable_offset)  # the lock is held by this very thread
        replay_producers(*arguments)  # type: ignore[arg-type]
        seen.append(log.last_stable_offset)

    monkeypatch.setattr("headrace.log.partition.log_truncator.replay_producers", replay)

    log.truncate_to(75)

    assert seen == [30, 30]
    assert log.last_stable_offset == 30


def test_without_markers_no_head_is_read_at_a_start(
    load: Load, disk: CrashDisk, directory: Path
) -> None:
    log, _ = load(WIDE)
    write(log, 60)
    log.append(sample_batch(b"i", producer_id=1, producer_epoch=0, sequence=0), 0)
    log.close()
    calls = []
    for high_watermark in (0, 61):
        before = disk.calls
        load(WIDE, clean=True, recovery_point=61, high_watermark=high_watermark)
        calls.append(disk.calls - before)

    assert calls[0] == calls[1]
