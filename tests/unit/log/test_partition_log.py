"""Append, read, truncate, trim and sync one partition."""

import errno
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from headrace.log.loader import load_log
from headrace.log.partition_log import PartitionLog
from headrace.log.segment import Placed, Segment
from headrace.log.segment_name import CLEANED, DELETED
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import (
    BatchTooLarge,
    CorruptBatch,
    DiskFull,
    InvalidArgument,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    LogClosed,
    LogDirectoryOffline,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageError,
    UnexpectedAppendOffset,
)
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import LOG_APPEND_TIME, Batch, iter_batches
from headrace.testing.crash_disk import CrashDisk
from headrace.testing.fault import Fault
from headrace.testing.sample_batch import SAMPLE_TIME_MS, sample_batch

OpenLog = Callable[..., PartitionLog]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_log(disk: CrashDisk, clock: ManualClock, directory: Path) -> OpenLog:
    def open_log(**config: object) -> PartitionLog:
        storage = Storage(disk, clock)
        partition = TopicPartition("clicks", 0)
        log, _ = load_log(storage, partition, directory, LogConfig(**config))  # type: ignore[arg-type]
        return log

    return open_log


@pytest.fixture
def log(open_log: OpenLog) -> PartitionLog:
    return open_log(segment_bytes=2000, index_interval_bytes=200)


def fill(log: PartitionLog, count: int, size: int = 20, **batch: int) -> None:
    for _ in range(count):
        log.append(sample_batch(b"v" * size, **batch), 0)
    log.set_high_watermark(log.log_end_offset)


def offsets(log: PartitionLog, start: int, **read: object) -> list[int]:
    piece = log.read(start, 1 << 20, **read)  # type: ignore[arg-type]
    return [batch.base_offset for batch in iter_batches(piece.read())]


# -- append ------------------------------------------------------------------------------------


def test_an_append_gets_the_next_offsets(log: PartitionLog) -> None:
    first = log.append(sample_batch(b"a", b"b"), 0)
    second = log.append(sample_batch(b"c"), 0)

    assert (first.base_offset, first.last_offset) == (0, 1)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert log.log_end_offset == 3


def test_only_offset_and_epoch_of_a_batch_change(log: PartitionLog) -> None:
    sent = sample_batch(b"a", b"b")
    log.append(sample_batch(b"before"), 3)
    log.append(sent, 7)
    log.set_high_watermark(3)

    stored = log.read(1, 1000).read()

    assert stored[16:] == sent[16:]
    assert (Batch(stored).base_offset, Batch(stored).leader_epoch) == (1, 7)


def test_several_batches_of_one_append_follow_each_other(log: PartitionLog) -> None:
    appended = log.append(sample_batch(b"a", b"b") + sample_batch(b"c"), 0)
    log.set_high_watermark(3)

    assert (appended.base_offset, appended.last_offset) == (0, 2)
    assert offsets(log, 0) == [0, 2]


def test_log_append_time_stamps_the_batch(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    clock.advance(5000)
    appended = log.append(sample_batch(b"a", timestamp_ms=1), 0)
    log.set_high_watermark(1)

    stored = Batch(log.read(0, 1000).read())

    stored.validate()
    assert stored.timestamp_type == LOG_APPEND_TIME
    assert stored.max_timestamp == appended.log_append_time_ms == clock.wall_ms()


def test_a_broken_batch_changes_nothing(log: PartitionLog) -> None:
    broken = bytearray(sample_batch(b"a"))
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append(broken, 0)
    assert log.log_end_offset == 0


def test_an_append_of_nothing_is_refused(log: PartitionLog) -> None:
    with pytest.raises(InvalidRecord):
        log.append(b"", 0)


def test_a_cut_off_batch_is_refused(log: PartitionLog) -> None:
    with pytest.raises(CorruptBatch):
        log.append(sample_batch(b"a")[:-1], 0)


def test_a_batch_above_max_message_bytes_is_refused(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes=200)
    with pytest.raises(BatchTooLarge, match=r"max\.message\.bytes"):
        log.append(sample_batch(b"x" * 200), 0)
    log.append(sample_batch(b"x" * 200), 0, from_client=False)


def test_a_record_from_the_future_is_refused(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_after_max_ms=1000)
    with pytest.raises(InvalidTimestamp):
        log.append(sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS + 1001), 0)


def test_a_record_from_long_ago_is_refused(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_before_max_ms=1000)
    with pytest.raises(InvalidTimestamp):
        log.append(sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS - 1001), 0)


def test_a_compacted_topic_wants_keys(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=("compact",))
    log.append(sample_batch(b"a"), 0)
    with pytest.raises(InvalidRecord, match="no key"):
        log.append(sample_batch(b"a", b"b", keys=[b"k", None]), 0)


def test_a_leader_needs_an_epoch(log: PartitionLog) -> None:
    with pytest.raises(InvalidArgument):
        log.append(sample_batch(b"a"), -1)


# -- producers ---------------------------------------------------------------------------------


def test_a_batch_sent_twice_is_stored_once(log: PartitionLog) -> None:
    batch = sample_batch(b"a", b"b", producer_id=1, producer_epoch=0, sequence=0)
    first = log.append(batch, 0)

    second = log.append(batch, 0)

    assert second.duplicate
    assert (second.base_offset, second.last_offset) == (first.base_offset, first.last_offset)
    assert log.log_end_offset == 2


def numbered(sequence: int, producer_id: int = 7, producer_epoch: int = 0) -> bytes:
    return sample_batch(
        b"x" * 50, producer_id=producer_id, producer_epoch=producer_epoch, sequence=sequence
    )


def test_all_of_the_last_five_batches_are_known_after_a_clean_stop(open_log: OpenLog) -> None:
    log = open_log()
    for sequence in range(8):
        log.append(numbered(sequence), 0)
        log.append(numbered(sequence, producer_id=8), 0)
    log.close()

    log = open_log()

    for sequence in range(3, 8):
        again = log.append(numbered(sequence), 0)
        assert again.duplicate
        assert again.base_offset == again.last_offset == 2 * sequence
    with pytest.raises(OutOfOrderSequence):
        log.append(numbered(2), 0)
    assert not log.append(numbered(8), 0).duplicate


def test_batches_of_an_earlier_epoch_are_not_known_again(open_log: OpenLog) -> None:
    log = open_log()
    log.append(numbered(0), 0)
    log.append(numbered(0, producer_epoch=1), 0)
    log.append(numbered(1, producer_epoch=1), 0)
    log.close()

    log = open_log()

    with pytest.raises(InvalidProducerEpoch):
        log.append(numbered(0), 0)
    assert log.append(numbered(0, producer_epoch=1), 0).base_offset == 1


def test_a_gap_in_the_sequence_is_refused(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0), 0)
    with pytest.raises(OutOfOrderSequence):
        log.append(sample_batch(b"b", producer_id=1, producer_epoch=0, sequence=2), 0)


def test_sequences_continue_within_one_append(log: PartitionLog) -> None:
    pair = [
        sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0),
        sample_batch(b"b", producer_id=1, producer_epoch=0, sequence=1),
    ]
    log.append(b"".join(pair), 0)
    with pytest.raises(OutOfOrderSequence):
        log.append(
            sample_batch(b"c", producer_id=1, producer_epoch=0, sequence=2)
            + sample_batch(b"d", producer_id=1, producer_epoch=0, sequence=4),
            0,
        )
    assert log.log_end_offset == 2


def test_an_old_epoch_is_fenced(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=3, sequence=0), 0)
    with pytest.raises(InvalidProducerEpoch):
        log.append(sample_batch(b"b", producer_id=1, producer_epoch=2, sequence=1), 0)


def test_idle_producers_are_forgotten(log: PartitionLog, clock: ManualClock) -> None:
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0), 0)
    clock.advance(1000)
    assert log.expire_producers(1000) == 1
    assert list(log.producer_entries()) == []


# -- transactions ------------------------------------------------------------------------------


def begin(log: PartitionLog, producer_id: int) -> None:
    batch = sample_batch(
        b"t", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
    )
    log.append(batch, 0)
    log.set_high_watermark(log.log_end_offset)


def end(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    log.append_marker(producer_id, 0, 0, commit=commit, coordinator_epoch=0)
    log.set_high_watermark(log.log_end_offset)


def test_the_last_stable_offset_waits_for_the_oldest_transaction(log: PartitionLog) -> None:
    fill(log, 1)
    begin(log, 1)
    begin(log, 2)
    assert log.last_stable_offset == 1

    end(log, 1, commit=True)
    assert log.last_stable_offset == 2
    end(log, 2, commit=False)
    assert log.last_stable_offset == log.high_watermark == 5


def test_a_marker_counts_once_it_is_replicated(log: PartitionLog) -> None:
    begin(log, 1)
    log.append_marker(1, 0, 0, commit=True, coordinator_epoch=0)
    assert log.last_stable_offset == 0
    log.set_high_watermark(2)
    assert log.last_stable_offset == 2


def test_aborted_transactions_are_listed_by_first_offset(log: PartitionLog) -> None:
    begin(log, 1)
    begin(log, 2)
    end(log, 2, commit=False)
    end(log, 1, commit=False)

    aborted = log.aborted_transactions(0, 4)

    assert [(each.producer_id, each.first_offset) for each in aborted] == [(1, 0), (2, 1)]
    assert log.aborted_transactions(4, 4) == []


def test_a_transaction_aborted_in_a_later_segment_is_found(log: PartitionLog) -> None:
    begin(log, 1)
    log.roll()
    fill(log, 3)
    log.roll()
    end(log, 1, commit=False)

    assert [each.producer_id for each in log.aborted_transactions(0, 2)] == [1]


def test_open_transactions_can_be_asked_for(log: PartitionLog) -> None:
    begin(log, 1)
    assert log.has_open_transaction(1, 0)
    end(log, 1, commit=True)
    assert not log.has_open_transaction(1, 0)


# -- following ---------------------------------------------------------------------------------


def test_a_follower_keeps_offsets_and_epochs(log: PartitionLog) -> None:
    log.append_as_follower(sample_batch(b"a", base_offset=5, leader_epoch=2))
    log.append_as_follower(sample_batch(b"b", base_offset=9, leader_epoch=3))
    log.set_high_watermark(10)

    assert log.log_end_offset == 10
    assert offsets(log, 0) == [5, 9]
    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 5), (3, 9)]


def test_a_follower_leaves_out_a_cut_off_batch(log: PartitionLog) -> None:
    two = sample_batch(b"a", leader_epoch=0) + sample_batch(b"b", base_offset=1, leader_epoch=0)
    log.append_as_follower(two[:-3])
    assert log.log_end_offset == 1
    assert log.append_as_follower(two[-20:]).size_bytes == 0


def test_a_follower_refuses_what_it_has(log: PartitionLog) -> None:
    fill(log, 3)
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(sample_batch(b"a", base_offset=2, leader_epoch=0))


# -- reading -----------------------------------------------------------------------------------


def test_every_offset_is_found_across_segments(log: PartitionLog) -> None:
    for _ in range(60):
        log.append(sample_batch(b"a", b"b", b"c"), 0)
    log.set_high_watermark(180)
    assert len(log.segments) == 3

    for offset in range(180):
        assert offsets(log, offset)[0] == offset // 3 * 3


def test_a_slice_starts_with_the_batch_that_holds_the_offset(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", b"b", b"c"), 0)
    log.set_high_watermark(3)

    assert log.read(2, 1000).first_offset == 0


def test_a_slice_ends_before_the_high_watermark(log: PartitionLog) -> None:
    fill(log, 5)
    log.set_high_watermark(3)

    assert offsets(log, 0) == [0, 1, 2]
    assert offsets(log, 0, max_offset=5) == [0, 1, 2, 3, 4]


def test_a_batch_that_reaches_to_the_bound_is_left_out(log: PartitionLog) -> None:
    log.append(sample_batch(b"a"), 0)
    log.append(sample_batch(b"b", b"c"), 0)
    log.set_high_watermark(3)

    assert offsets(log, 0, max_offset=2) == [0]
    assert log.read(1, 1000, max_offset=2).size == 0


def test_a_slice_keeps_to_its_byte_budget(log: PartitionLog) -> None:
    fill(log, 5)
    size = log.read(0, 1 << 20).size // 5

    assert log.read(0, size * 2 + 10).size == size * 2 + 10


def test_a_first_batch_above_the_budget_comes_whole_or_not_at_all(log: PartitionLog) -> None:
    fill(log, 2)

    assert offsets(log, 0) == [0, 1]
    assert Batch(log.read(0, 1).read()).base_offset == 0
    assert log.read(0, 1, at_least_one=False).size == 0


def test_at_the_end_there_is_nothing(log: PartitionLog) -> None:
    fill(log, 2)
    assert log.read(2, 1000).size == 0
    assert log.read(2, 1000).read() == b""


@pytest.mark.parametrize("offset", [-1, 3])
def test_an_offset_outside_the_log_is_out_of_range(log: PartitionLog, offset: int) -> None:
    fill(log, 2)
    with pytest.raises(OffsetOutOfRange):
        log.read(offset, 1000)


def test_a_slice_outlives_the_deletion_of_its_segment(
    log: PartitionLog, clock: ManualClock
) -> None:
    fill(log, 3)
    piece = log.read(0, 1 << 20)
    log.delete_records(3)
    log.apply_retention()
    clock.advance(log.config.file_delete_delay_ms)
    log.remove_deleted()

    assert len(list(iter_batches(piece.read()))) == 3


# -- time --------------------------------------------------------------------------------------


def test_the_first_record_at_or_after_a_time(log: PartitionLog) -> None:
    for number in range(100):
        log.append(sample_batch(b"a" * 30, timestamp_ms=SAMPLE_TIME_MS + number * 10), 4)
    log.set_high_watermark(100)

    found = log.offset_for_timestamp(SAMPLE_TIME_MS + 555)

    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (56, SAMPLE_TIME_MS + 560, 4)


def test_the_record_inside_a_batch_is_found(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", b"b", b"c", b"d", step_ms=100), 0)
    log.set_high_watermark(4)

    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 150).offset == 2


def test_no_record_is_new_enough(log: PartitionLog) -> None:
    fill(log, 3)
    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 1).offset == -1


def test_a_record_past_the_bound_is_not_shown(log: PartitionLog) -> None:
    fill(log, 3)
    assert log.offset_for_timestamp(SAMPLE_TIME_MS, max_offset=0).offset == -1


def test_times_that_run_backwards(log: PartitionLog) -> None:
    for ms in (50, 10, 90, 20):
        log.append(sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS + ms), 0)
    log.set_high_watermark(4)

    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 20).offset == 0
    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 60).offset == 2
    assert log.offset_of_max_timestamp().offset == 2


def test_an_empty_log_has_no_newest_record(log: PartitionLog) -> None:
    assert log.offset_of_max_timestamp().offset == -1


# -- leader epochs -----------------------------------------------------------------------------


def test_where_a_leader_epoch_ends(log: PartitionLog) -> None:
    for epoch in (1, 1, 3):
        log.append(sample_batch(b"a"), epoch)

    assert tuple(log.epoch_end_offset(1)) == (1, 2)
    assert tuple(log.epoch_end_offset(2)) == (1, 2)
    assert tuple(log.epoch_end_offset(3)) == (3, 3)
    assert log.latest_epoch == 3


# -- truncation --------------------------------------------------------------------------------


def test_truncating_takes_whole_batches(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", b"b"), 0)
    log.append(sample_batch(b"c", b"d"), 0)

    assert log.truncate_to(3)

    assert log.log_end_offset == 2
    assert not log.truncate_to(2)


def test_truncating_across_segments_restores_what_was_known_then(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0), 0)
    fill(log, 50)
    for sequence in range(1, 50):
        log.append(sample_batch(b"b", producer_id=1, producer_epoch=0, sequence=sequence), 1)

    log.truncate_to(20)

    assert log.log_end_offset == log.segments[-1].end_offset == 20
    assert [entry.last_sequence for entry in log.producer_entries()] == [0]
    assert log.latest_epoch == 0
    log.append(sample_batch(b"c", producer_id=1, producer_epoch=0, sequence=1), 2)
    assert log.log_end_offset == 21


def test_starting_anew_at_an_offset(log: PartitionLog) -> None:
    fill(log, 50)

    log.truncate_fully_and_start_at(1000)

    assert log.log_start_offset == log.high_watermark == log.log_end_offset == 1000
    assert log.append(sample_batch(b"a"), 0).base_offset == 1000


def test_truncating_below_the_start_starts_anew(log: PartitionLog) -> None:
    fill(log, 10)
    log.delete_records(8)

    log.truncate_to(5)

    assert log.log_start_offset == log.log_end_offset == 5


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_negative_offset_is_a_wrong_argument(log: PartitionLog, call: str) -> None:
    with pytest.raises(InvalidArgument):
        getattr(log, call)(-1)


# -- trimming ----------------------------------------------------------------------------------


def test_deleted_records_are_out_of_range(log: PartitionLog) -> None:
    fill(log, 10)

    assert log.delete_records(4) == 4

    with pytest.raises(OffsetOutOfRange):
        log.read(3, 1000)
    assert offsets(log, 4)[0] == 4


def test_minus_one_deletes_up_to_the_high_watermark(log: PartitionLog) -> None:
    fill(log, 10)
    log.set_high_watermark(7)
    assert log.delete_records(-1) == 7


@pytest.mark.parametrize("before", [-2, 8])
def test_deleting_past_the_high_watermark_is_refused(log: PartitionLog, before: int) -> None:
    fill(log, 10)
    log.set_high_watermark(7)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(before)


def test_retention_by_time_drops_old_segments_and_moves_the_start(
    open_log: OpenLog, clock: ManualClock
) -> None:
    log = open_log(segment_bytes=1024, retention_ms=1000)
    fill(log, 30)
    clock.advance(1001)
    fill(log, 1, timestamp_ms=clock.wall_ms())

    dropped = log.apply_retention()

    assert dropped > 0
    assert log.log_start_offset == log.segments[0].base_offset > 0


def test_when_everything_is_old_an_empty_segment_is_left(
    open_log: OpenLog, clock: ManualClock
) -> None:
    log = open_log(retention_ms=1000)
    fill(log, 5)
    clock.advance(5000)

    assert log.apply_retention() == 1

    assert log.log_start_offset == log.log_end_offset == 5
    assert [segment.size_bytes for segment in log.segments] == [0]


def test_dropped_files_wait_for_the_delay(
    open_log: OpenLog, clock: ManualClock, disk: CrashDisk, directory: Path
) -> None:
    log = open_log(segment_bytes=1024, retention_bytes=0, file_delete_delay_ms=500)
    fill(log, 30)
    log.apply_retention()
    assert any(name.endswith(DELETED) for name in disk.list(directory))
    assert log.remove_deleted() == 0

    clock.advance(500)

    assert log.remove_deleted() > 0
    assert not any(name.endswith(DELETED) for name in disk.list(directory))


# -- replacing segments ------------------------------------------------------------------------


def rewrite(log: PartitionLog, source: Segment, *offsets: int) -> Segment:
    """What compaction would leave of a segment: the batches that start at these offsets."""
    new = Segment(log.storage, log.path, source.base_offset, new=True, stage=CLEANED)
    new.create()
    for batch in iter_batches(source.file().pread(source.size_bytes, 0)):
        if batch.base_offset in offsets:
            placed = Placed(batch, batch.base_offset, batch.last_offset, batch.max_timestamp)
            new.append([batch.data], [placed], 0)
    new.end_offset = source.end_offset
    new.close_indexes()
    return new


def test_replaced_segments_are_read_at_once(
    log: PartitionLog, disk: CrashDisk, directory: Path
) -> None:
    fill(log, 5)
    log.roll()
    fill(log, 5)

    log.replace_segments(log.segments[:1], [rewrite(log, log.segments[0], 1, 3)])

    assert offsets(log, 0) == [1, 3]
    assert offsets(log, 2) == [3]
    assert offsets(log, 4) == [5, 6, 7, 8, 9]
    assert not any("swap" in name or "cleaned" in name for name in disk.list(directory))


def test_a_reader_that_holds_the_old_segment_looks_again(log: PartitionLog) -> None:
    fill(log, 5)
    log.roll()
    old = log.segments[0]
    log.replace_segments([old], [rewrite(log, old, 2)])

    with pytest.raises(FileNotFoundError):
        old.file()


def test_several_segments_become_one(log: PartitionLog) -> None:
    fill(log, 5)
    log.roll()
    fill(log, 5)
    log.roll()
    new = rewrite(log, log.segments[0], 0)
    new.end_offset = 10

    log.replace_segments(log.segments[:2], [new])

    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert log.read(1, 1000).size == 0


def test_the_active_segment_cannot_be_replaced(log: PartitionLog) -> None:
    fill(log, 5)
    new = rewrite(log, log.segments[0], 0)
    with pytest.raises(InvalidArgument):
        log.replace_segments(log.segments, [new])


# -- durability --------------------------------------------------------------------------------


def test_sync_makes_everything_durable_with_one_fsync(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 3)
    log.sync()
    fill(log, 3)
    before = disk.sync_count

    assert log.sync() == 6

    assert disk.sync_count == before + 1
    assert log.synced_offset == 6
    assert log.recovery_point == 0


def test_flush_moves_the_recovery_point(log: PartitionLog) -> None:
    fill(log, 3)
    assert log.flush() == log.recovery_point == log.synced_offset == 3


def test_flush_messages_and_flush_ms_say_when_to_sync(
    open_log: OpenLog, clock: ManualClock
) -> None:
    log = open_log(flush_messages=3, flush_ms=1000)
    fill(log, 2)
    assert not log.sync_due()
    fill(log, 1)
    assert log.sync_due()
    log.sync()
    assert not log.sync_due()
    fill(log, 1)
    clock.advance(1000)
    assert log.sync_due()


def test_rolling_twice_syncs_the_first(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 1)
    log.roll()
    fill(log, 1)
    log.roll()
    assert disk.unsynced_bytes(log.segments[0].path) == 0
    assert disk.unsynced_bytes(log.segments[1].path) > 0


def test_a_full_disk_refuses_the_append_and_nothing_else(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 2)
    disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=30))

    with pytest.raises(DiskFull, match="no room"):
        log.append(sample_batch(b"a"), 0)

    assert log.log_end_offset == 2
    assert log.segments[0].file().size() == log.segments[0].size_bytes
    assert log.append(sample_batch(b"b"), 0).base_offset == 2


def test_a_failed_write_takes_the_directory_offline_once(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 2)
    disk.inject(Fault(errno.EIO, lambda call: call.name == "pwritev", written_bytes=30))

    with pytest.raises(StorageError, match="cannot append"):
        log.append(sample_batch(b"a"), 0)

    assert log.log_end_offset == 2
    for call in (lambda: log.append(sample_batch(b"b"), 0), log.sync, lambda: log.read(0, 1)):
        with pytest.raises(LogDirectoryOffline):
            call()


def test_a_failed_sync_is_not_tried_again(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 2)
    disk.inject(Fault(errno.EIO, lambda call: call.name == "sync"))
    with pytest.raises(StorageError, match="cannot sync"):
        log.sync()
    with pytest.raises(LogDirectoryOffline):
        log.sync()
    assert log.synced_offset == 0


def test_a_disk_that_fails_while_closing_is_told_as_such(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 2)
    log.segments[0].reload_time()
    disk.inject(Fault(errno.EIO, lambda call: call.name == "pread"))
    with pytest.raises(StorageError, match="cannot close"):
        log.close()


def test_a_closed_log_takes_nothing(log: PartitionLog) -> None:
    fill(log, 2)
    log.close()
    with pytest.raises(LogClosed):
        log.append(sample_batch(b"a"), 0)
    log.close()


# -- threads -----------------------------------------------------------------------------------


def test_readers_and_background_work_do_not_disturb_appends(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024, index_interval_bytes=100, retention_bytes=8000)
    problems: list[BaseException] = []
    done = False

    def watch(work: Callable[[], object]) -> None:
        try:
            while not done:
                work()
        except Exception as error:  # noqa: BLE001 - shown by the assert below
            problems.append(error)

    rng = Random(1)

    def read() -> None:
        start = rng.randint(log.log_start_offset, log.high_watermark)
        try:
            batches = list(iter_batches(log.read(start, 4096).read()))
        except OffsetOutOfRange:
            return  # retention was faster
        assert not batches or batches[0].base_offset <= start <= batches[0].last_offset
        for before, after in pairwise(batches):
            assert after.base_offset == before.next_offset

    threads = [
        Thread(target=watch, args=(work,)) for work in (read, log.flush, log.apply_retention)
    ]
    for thread in threads:
        thread.start()
    for _ in range(1500):
        log.append(sample_batch(b"x" * 40, b"y"), 0)
        log.set_high_watermark(log.log_end_offset)
    done = True
    for thread in threads:
        thread.join()

    assert problems == []
    assert log.log_end_offset == 3000
