"""What a log appends, and what the append returns."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import (
    BatchTooLarge,
    CorruptBatch,
    InvalidArgument,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    OutOfOrderSequence,
    UnexpectedAppendOffset,
)
from headrace.model.ids import TopicPartition
from headrace.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME,
    TRANSACTIONAL_BIT,
    Batch,
    build_head,
)
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch
from testkit.sample.filled_log import fill, offsets

OpenLog = Callable[..., PartitionLog]


# -- append ----------------------------------------------------------------------------------------


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


# -- producers -------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("rolls", [(), (0,), (7,), (5,), (3, 4, 5, 6, 7)])
def test_what_a_snapshot_of_producers_left_out_is_read_from_the_log(
    log: PartitionLog, disk: CrashDisk, directory: Path, rolls: tuple[int, ...]
) -> None:
    """A snapshot has the last batch of each producer; four more may be sent again, and lie in as
    many segments."""
    log.append(sample_batch(b"x"), 0)
    for sequence in range(8):
        if sequence in rolls:
            log.roll()
        log.append(numbered(sequence), 0)
        log.append(numbered(sequence, producer_id=8), 0)
    log.close()

    log, _ = load_log(
        Storage(disk, ManualClock()),
        log.partition,
        directory,
        log.config,
        clean=True,
        recovery_point=17,
    )

    with pytest.raises(OutOfOrderSequence):
        log.append(numbered(2), 0)
    for sequence in range(3, 8):
        again = log.append(numbered(sequence), 0)
        assert again.duplicate
        assert again.base_offset == again.last_offset == 2 * sequence + 1
    with pytest.raises(OutOfOrderSequence):
        log.append(numbered(9), 0)
    assert log.append(numbered(8), 0).base_offset == 17


def test_a_damaged_index_ends_the_search_for_what_a_snapshot_left_out(
    disk: CrashDisk, directory: Path, open_log: OpenLog
) -> None:
    log = open_log(segment_bytes=200)
    for sequence in range(6):
        log.append(sample_batch(b"v" * 60, producer_id=7, producer_epoch=0, sequence=sequence), 0)
    damaged = log.segments[-2].base_offset
    log.close()
    file = disk.open(directory / f"{damaged:020d}.index")
    file.truncate(0)
    file.pwritev([b"12345"], 0)

    storage = Storage(disk, ManualClock())
    log, _ = load_log(storage, log.partition, directory, log.config, clean=True, recovery_point=6)

    for _ in range(2):
        with pytest.raises(OutOfOrderSequence):
            log.append(sample_batch(b"v" * 60, producer_id=7, producer_epoch=0, sequence=1), 0)
    assert storage.failure is None


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


def test_a_producer_is_checked_behind_a_batch_of_none(log: PartitionLog) -> None:
    log.append(numbered(0), 0)
    with pytest.raises(OutOfOrderSequence):
        log.append(sample_batch(b"a") + numbered(5), 0)
    assert log.log_end_offset == 1


def test_a_retry_names_the_broker_time_of_the_first_time(
    open_log: OpenLog, clock: ManualClock
) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    first = log.append(numbered(0), 0)
    clock.advance(5000)

    assert log.append(numbered(0), 0).log_append_time_ms == first.log_append_time_ms


def test_a_retry_names_no_broker_time_where_producers_tell_the_time(log: PartitionLog) -> None:
    log.append(numbered(0), 0)

    assert log.append(numbered(0), 0).log_append_time_ms == -1


@pytest.mark.parametrize("count", [2, 3])
def test_each_batch_of_an_append_continues_the_one_before(log: PartitionLog, count: int) -> None:
    log.append(numbered(0), 0)

    log.append(b"".join(numbered(1 + number) for number in range(count)), 0)

    assert log.log_end_offset == 1 + count
    assert [entry.last_sequence for entry in log.producer_entries()] == [count]


def test_an_old_epoch_is_fenced(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=3, sequence=0), 0)
    with pytest.raises(InvalidProducerEpoch):
        log.append(sample_batch(b"b", producer_id=1, producer_epoch=2, sequence=1), 0)


def test_idle_producers_are_forgotten(log: PartitionLog, clock: ManualClock) -> None:
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0), 0)
    clock.advance(1000)
    assert log.expire_producers(1000) == 1
    assert list(log.producer_entries()) == []


# -- following -------------------------------------------------------------------------------------


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


def test_a_follower_knows_the_producers_of_what_it_copies(log: PartitionLog) -> None:
    batch = sample_batch(b"a", leader_epoch=0, producer_id=1, producer_epoch=0, sequence=0)

    log.append_as_follower(batch)

    assert log.append(batch, 0).duplicate


def test_a_follower_copies_a_batch_from_before_there_were_epochs(log: PartitionLog) -> None:
    log.append_as_follower(sample_batch(b"a", leader_epoch=-1))

    assert log.log_end_offset == 1
    assert log.epochs.entries == ()


def test_a_follower_starts_a_segment_at_the_first_batch_behind_a_jump(log: PartitionLog) -> None:
    log.append_as_follower(sample_batch(b"a", leader_epoch=0))
    far = 2**31 + 10

    log.append_as_follower(
        sample_batch(b"b", base_offset=far, leader_epoch=0)
        + sample_batch(b"c", base_offset=far + 1, leader_epoch=0)
    )

    assert [segment.base_offset for segment in log.segments] == [0, far]


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


# -- what a leader sends that is unusual -----------------------------------------------------------


def test_a_follower_writes_no_marker_that_it_cannot_read(open_log: OpenLog) -> None:
    log = open_log()
    log.append_as_follower(sample_batch(b"a", leader_epoch=0))
    rows = b"\x02\x00"
    head = build_head(
        rows,
        base_offset=1,
        leader_epoch=0,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        last_offset_delta=0,
        record_count=1,
        producer_id=7,
        producer_epoch=0,
    )
    with pytest.raises(CorruptBatch):
        log.append_as_follower(head + rows)
    log.sync()

    assert log.log_end_offset == open_log().log_end_offset == 1


def control(producer_id: int, rows: bytes) -> bytes:
    head = build_head(
        rows,
        base_offset=1,
        leader_epoch=0,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        last_offset_delta=0,
        record_count=1 if rows else 0,
        producer_id=producer_id,
        producer_epoch=0,
    )
    return head + rows


def control_rows(kind: int, value: bytes) -> bytes:
    """One control record; `kind` is ABORT 0, COMMIT 1, or another that nothing here reads."""
    key = bytes([0, 0, 0, kind])
    body = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    return bytes([2 * len(body)]) + body


@pytest.mark.parametrize("producer_id", [0, 7])
def test_a_follower_writes_no_marker_without_the_coordinators_epoch(
    log: PartitionLog, producer_id: int
) -> None:
    log.append_as_follower(sample_batch(b"a", leader_epoch=0))

    with pytest.raises(CorruptBatch):
        log.append_as_follower(control(producer_id, control_rows(1, b"\0")))

    assert log.log_end_offset == 1


@pytest.mark.parametrize(
    ("producer_id", "rows"),
    [(7, b""), (7, control_rows(2, b"\0")), (-1, control_rows(1, b"\0"))],
    ids=["compacted away", "of another kind", "of no producer"],
)
def test_a_follower_copies_a_control_batch_that_ends_no_transaction(
    log: PartitionLog, producer_id: int, rows: bytes
) -> None:
    log.append_as_follower(sample_batch(b"a", leader_epoch=0))

    log.append_as_follower(control(producer_id, rows))

    assert log.log_end_offset == 2


@pytest.mark.parametrize("loss", [Loss.EVERYTHING, Loss.NOTHING])
def test_a_jump_of_offsets_that_no_index_can_hold_survives_a_crash(
    loss: Loss,
) -> None:
    disk = CrashDisk()

    def opened() -> LogDirectory:
        return LogDirectory.open(Path("/data"), filesystem=disk, background=False)

    clicks = TopicPartition("clicks", 0)
    log = opened().create(clicks)
    far = 2**31 + 10
    for base in (0, far, far + 1, 3 * far):
        log.append_as_follower(sample_batch(b"v", base_offset=base, leader_epoch=0))
    log.sync()
    assert [segment.base_offset for segment in log.segments] == [0, far, 3 * far]

    disk.crash(Random(1), loss=loss, chaos=False)

    log = opened().get(clicks)
    log.set_high_watermark(log.log_end_offset)
    assert log.log_end_offset == 3 * far + 1
    assert offsets(log, 0) == [0]
    assert offsets(log, far) == [far, far + 1]
