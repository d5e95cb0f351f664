"""What a log appends, and what the append returns."""

from collections.abc import Callable

import pytest

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import ManualClock
from headrace.model.error import (
    BatchTooLarge,
    CorruptBatch,
    InvalidArgument,
    InvalidRecord,
    InvalidTimestamp,
)
from headrace.records.batch import (
    LOG_APPEND_TIME,
    Batch,
    build_head,
)
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch
from testkit.sample.filled_log import offsets

OpenLog = Callable[..., PartitionLog]


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


@pytest.mark.parametrize("view", [bytes, memoryview])
def test_an_append_says_how_many_bytes_the_log_grew_by(
    log: PartitionLog, view: Callable[[bytes], bytes]
) -> None:
    batch = sample_batch(b"a", b"b")

    assert [log.append(view(batch), 0).size_bytes for _ in range(2)] == [len(batch)] * 2
    assert log.append(view(batch * 3), 0).size_bytes == len(batch) * 3
    assert log.size_bytes == 5 * len(batch)


def test_a_batch_without_a_producer_leaves_none_behind(log: PartitionLog) -> None:
    log.append(sample_batch(b"a") + sample_batch(b"b"), 0)

    assert log.producer_entries() == []


# -- records that are none -------------------------------------------------------------------------


def garbage(count: int, codec: int = 0, size: int = 24) -> bytes:
    rows = b"\xff" * size
    head = build_head(
        rows,
        attributes=codec,
        last_offset_delta=count - 1,
        record_count=count,
        base_timestamp=SAMPLE_TIME_MS,
        max_timestamp=SAMPLE_TIME_MS,
    )
    return head + rows


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("view", [bytes, memoryview])
def test_garbage_that_claims_records_is_refused(
    log: PartitionLog, codec: int, view: Callable[[bytes], bytes]
) -> None:
    log.append(sample_batch(b"before"), 0)
    with pytest.raises(InvalidRecord):
        log.append(view(garbage(2**31 - 1, codec)), 0)
    assert log.log_end_offset == 1
    assert len(log.segments) == 1


def test_the_record_that_is_none_is_named(log: PartitionLog) -> None:
    batch = Batch(sample_batch(b"a", b"b", b"c"))
    rows = bytearray(batch.records)
    third = len(rows) // 3 * 2
    rows[third + 3] = 2  # the offset delta of the third record
    head = build_head(
        rows, last_offset_delta=2, record_count=3, base_timestamp=0, max_timestamp=SAMPLE_TIME_MS
    )
    with pytest.raises(InvalidRecord) as raised:
        log.append(head + bytes(rows), 0)
    assert [record for record, _ in raised.value.record_errors] == [2]


@pytest.mark.parametrize("codec", Codec)
def test_records_without_a_key_are_named(open_log: OpenLog, codec: Codec) -> None:
    log = open_log(cleanup_policy=("compact",))
    plain = Batch(sample_batch(b"a", b"b", b"c", keys=[None, b"k", None]))
    batch = recompressed(plain, codec, None, max_inflated_bytes=10_000)
    with pytest.raises(InvalidRecord) as raised:
        log.append(batch.data, 0)
    assert [record for record, _ in raised.value.record_errors] == [0, 2]
    assert "no key" in raised.value.record_errors[0][1]


@pytest.mark.parametrize("codec", Codec)
def test_records_out_of_time_are_named(open_log: OpenLog, codec: Codec) -> None:
    log = open_log(message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=1000)
    plain = Batch(
        sample_batch(b"a", b"b", b"c", b"d", timestamp_ms=SAMPLE_TIME_MS - 2000, step_ms=1500)
    )
    batch = recompressed(plain, codec, None, max_inflated_bytes=10_000)
    with pytest.raises(InvalidTimestamp) as raised:
        log.append(batch.data, 0)
    assert [record for record, _ in raised.value.record_errors] == [0, 3]


def test_a_record_newer_than_its_batch_says_is_refused(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_after_max_ms=1000)
    log.append(memoryview(sample_batch(b"a")), 0)
    rows = Batch(sample_batch(b"a", b"b", step_ms=5000)).records
    head = build_head(
        rows,
        last_offset_delta=1,
        record_count=2,
        base_timestamp=SAMPLE_TIME_MS,
        max_timestamp=SAMPLE_TIME_MS,
    )
    with pytest.raises(InvalidTimestamp) as raised:
        log.append(memoryview(head + bytes(rows)), 0)
    assert [record for record, _ in raised.value.record_errors] == [1]
