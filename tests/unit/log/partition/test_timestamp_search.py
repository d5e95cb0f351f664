"""Finding a record by its time: in old and new segments, opened batches, and after deletions."""

from collections.abc import Callable

import pytest

from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.timestamp_search import FoundRecord
from headrace.model.offset import Offset
from headrace.records.batch import DELETE_HORIZON_BIT, Batch, build_head
from testkit.sample.batch import sample_batch
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch

OpenLog = Callable[..., PartitionLog]
NOTHING = FoundRecord()


def add(log: PartitionLog, *times_ms: int, epoch: int = 0) -> None:
    """Append one batch with a record of each time."""
    records = [KeyedRecord(b"k", b"v", timestamp_ms=each) for each in times_ms]
    log.append(keyed_batch(records), epoch)
    log.set_high_watermark(log.log_end_offset)


def first(log: PartitionLog, timestamp_ms: int) -> tuple[int, int]:
    found = log.offset_for_timestamp(timestamp_ms)
    return found.offset, found.timestamp_ms


def newest(log: PartitionLog) -> tuple[int, int]:
    found = log.offset_of_max_timestamp()
    return found.offset, found.timestamp_ms


# -- the first at or after a time ------------------------------------------------------------------


def test_a_record_of_just_this_time_is_found_in_any_kind_of_batch(log: PartitionLog) -> None:
    add(log, 100)
    add(log, 200, 300, 400)

    assert [first(log, each) for each in (0, 100, 101, 200, 300, 301, 400)] == [
        (0, 100),
        (0, 100),
        (1, 200),
        (1, 200),
        (2, 300),
        (3, 400),
        (3, 400),
    ]
    assert log.offset_for_timestamp(401) == NOTHING


def test_the_epoch_of_the_batch_is_told(log: PartitionLog) -> None:
    add(log, 100, epoch=3)
    add(log, 200, 300, epoch=4)

    assert log.offset_for_timestamp(50) == FoundRecord(100, Offset(0), 3)
    assert log.offset_for_timestamp(250) == FoundRecord(300, Offset(2), 4)


def test_a_segment_without_records_or_with_older_ones_is_passed_over(log: PartitionLog) -> None:
    add(log, 100)
    log.roll()
    assert log.offset_for_timestamp(101) == NOTHING
    add(log, 200)
    log.roll()

    assert first(log, 150) == (1, 200)
    assert log.offset_for_timestamp(201) == NOTHING
    assert newest(log) == (1, 200)


def test_a_batch_may_be_newer_than_what_is_left_of_it(log: PartitionLog) -> None:
    """Its newest record is deleted, and the search goes on behind it."""
    add(log, 900, 100, 100)
    add(log, 50)
    add(log, 800, 800)
    log.delete_records(1)

    assert first(log, 500) == (4, 800)
    assert first(log, 60) == (1, 100)
    assert newest(log) == (4, 800)


def test_a_whole_segment_may_be_newer_than_what_is_left_of_it(log: PartitionLog) -> None:
    add(log, 900, 100)
    log.roll()
    add(log, 800)
    log.delete_records(1)

    assert first(log, 500) == (2, 800)


@pytest.mark.parametrize("start", [1, 2])
def test_the_search_begins_at_the_log_start(log: PartitionLog, start: int) -> None:
    add(log, 300, 300, 300)
    log.delete_records(start)

    assert first(log, 200) == (start, 300)
    assert newest(log) == (start, 300)


def test_the_last_record_of_a_batch_can_be_the_first_of_the_log(log: PartitionLog) -> None:
    add(log, 100, 200)
    add(log, 50)
    log.delete_records(1)

    assert first(log, 60) == (1, 200)
    assert newest(log) == (1, 200)


def test_a_record_at_the_bound_is_not_told(log: PartitionLog) -> None:
    add(log, 100, 200)

    assert log.offset_for_timestamp(200, max_offset=2).offset == 1
    assert log.offset_for_timestamp(200, max_offset=1) == NOTHING


# -- what the head alone says ----------------------------------------------------------------------


def test_with_the_brokers_time_all_records_of_a_batch_have_it(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    log.append(sample_batch(b"a", b"b", b"c", timestamp_ms=5, step_ms=7), 0)
    log.set_high_watermark(3)
    now_ms = log.storage.clock.wall_ms()

    assert first(log, 10) == (0, now_ms)
    log.delete_records(2)
    assert first(log, 10) == newest(log) == (2, now_ms)


def test_one_record_that_compaction_left_of_many_is_found_where_it_is(log: PartitionLog) -> None:
    """Its offset is not that of the batch, and the head cannot tell."""
    kept = keyed_batch([KeyedRecord(b"k", b"v", timestamp_ms=100, offset=2)], last_offset=4)
    log.append_as_follower(kept)
    log.set_high_watermark(5)

    assert first(log, 100) == newest(log) == (2, 100)


def test_one_record_at_the_start_of_its_batch_is_found_there(log: PartitionLog) -> None:
    kept = keyed_batch([KeyedRecord(b"k", b"v", timestamp_ms=100)], last_offset=1)
    log.append_as_follower(kept)
    log.set_high_watermark(2)
    log.delete_records(1)

    assert log.offset_for_timestamp(100) == NOTHING


def test_the_time_of_a_record_in_a_batch_with_a_delete_horizon(log: PartitionLog) -> None:
    """The head has the horizon where the base timestamp was (KIP-534)."""
    horizon_ms = 9000
    rows = Batch(
        keyed_batch([KeyedRecord(b"k", None, timestamp_ms=100)], base_timestamp=horizon_ms)
    ).records
    head = build_head(
        rows,
        attributes=DELETE_HORIZON_BIT,
        leader_epoch=0,
        last_offset_delta=0,
        record_count=1,
        base_timestamp=horizon_ms,
        max_timestamp=500,
    )
    log.append_as_follower(head + bytes(rows))
    add(log, 400)

    assert first(log, 50) == (0, 100)
    assert first(log, 300) == (1, 400)


def test_a_batch_that_compaction_emptied_has_no_record(log: PartitionLog) -> None:
    log.append_as_follower(
        build_head(
            b"",
            leader_epoch=0,
            last_offset_delta=0,
            record_count=0,
            base_timestamp=100,
            max_timestamp=100,
        )
    )
    add(log, 200, 300)

    assert first(log, 50) == (1, 200)


# -- the newest ------------------------------------------------------------------------------------


def test_the_first_of_the_newest_records_is_told(log: PartitionLog) -> None:
    add(log, 100, 300)
    log.roll()
    add(log, 300)
    add(log, 200)

    assert newest(log) == (1, 300)


def test_the_newest_is_found_behind_an_older_segment_that_was_cut(log: PartitionLog) -> None:
    add(log, 500)
    add(log, 100)
    add(log, 200)
    log.roll()
    add(log, 150)
    log.delete_records(1)

    assert newest(log) == (2, 200)


def test_the_newest_record_may_be_deleted_from_within_its_batch(log: PartitionLog) -> None:
    add(log, 900, 100, 300, 200)
    log.delete_records(1)
    assert newest(log) == (2, 300)

    add(log, 250)
    assert newest(log) == (2, 300)
    log.delete_records(3)
    assert newest(log) == (4, 250)
    add(log, 250, 1000)
    assert newest(log) == (6, 1000)


def test_times_before_1970_are_none(log: PartitionLog) -> None:
    add(log, -1)
    add(log, 0)

    assert newest(log) == (1, 0)
