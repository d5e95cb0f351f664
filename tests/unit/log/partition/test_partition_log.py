"""What one partition's log offers beside appending and reading: its offsets, its care, its end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import ManualClock
from headrace.model.error import LogClosed
from headrace.records.batch import Batch
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill

OpenLog = Callable[..., PartitionLog]


# -- offsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "kept"), [(-1, 2), (1, 2), (2, 2), (4, 4), (5, 5), (9, 5)])
def test_the_high_watermark_is_kept_within_the_log(
    log: PartitionLog, asked: int, kept: int
) -> None:
    fill(log, 5)
    log.delete_records(2)

    assert log.set_high_watermark(asked) == log.high_watermark == kept


def test_the_last_stable_offset_is_at_most_the_high_watermark(log: PartitionLog) -> None:
    fill(log, 2)
    log.append(
        sample_batch(b"t", producer_id=1, producer_epoch=0, sequence=0, transactional=True), 0
    )
    for high_watermark in (1, 2):
        log.set_high_watermark(high_watermark)
        assert log.last_stable_offset == high_watermark
    log.set_high_watermark(3)
    assert log.last_stable_offset == 2
    log.delete_records(3)
    assert log.last_stable_offset == 3


# -- opening batches -------------------------------------------------------------------------------


def test_a_topic_says_which_batches_it_must_open(open_log: OpenLog) -> None:
    plain = sample_batch(b"a" * 50)
    packed = recompressed(Batch(plain), Codec.ZSTD, None, max_inflated_bytes=1000).data

    log = open_log(compression_type="zstd")

    assert log.must_open(plain)
    assert log.must_open(packed), "it is inflated, and stored as it came"
    [admitted] = log.admit(plain)
    assert admitted.compression == Codec.ZSTD
    assert log.append(plain, 0, admitted=[admitted]).size_bytes == admitted.size_bytes
    assert log.size_bytes == admitted.size_bytes < len(plain)


# -- the first batch of a copy ---------------------------------------------------------------------


def test_only_a_whole_head_can_span_the_start(log: PartitionLog) -> None:
    batch = sample_batch(*[b"x"] * 8, base_offset=2, leader_epoch=3)
    log.truncate_fully_and_start_at(5)

    assert log.spans_start(batch)
    assert log.spans_start(batch[:61])
    assert not log.spans_start(batch[:60])
    assert not log.spans_start(b"")


@pytest.mark.parametrize(
    ("base_offset", "records", "spans"),
    [(0, 5, False), (0, 6, True), (4, 2, True), (5, 3, False)],
)
def test_a_batch_spans_the_start_from_below_it_to_it(
    log: PartitionLog, base_offset: int, records: int, spans: bool
) -> None:
    log.truncate_fully_and_start_at(5)
    batch = sample_batch(*[b"x"] * records, base_offset=base_offset, leader_epoch=3)

    assert log.spans_start(batch) is spans


# -- care ------------------------------------------------------------------------------------------


def test_care_flushes_what_was_rolled_and_not_what_is_active(log: PartitionLog) -> None:
    fill(log, 3)
    log.maintain(1000)
    assert log.recovery_point == 0

    log.roll()
    fill(log, 1)
    log.maintain(1000)
    assert log.recovery_point == 4

    fill(log, 1)
    log.maintain(1000)
    assert log.recovery_point == 4

    log.roll()
    log.flush()
    fill(log, 1)
    log.maintain(1000)
    assert log.recovery_point == 5

    log.roll()
    log.maintain(1000)
    assert log.recovery_point == 6


def test_care_deletes_drops_and_forgets(
    open_log: OpenLog, clock: ManualClock, disk: CrashDisk, directory: Path
) -> None:
    log = open_log(retention_ms=1000, file_delete_delay_ms=500)
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0), 0)
    log.set_high_watermark(1)
    clock.advance(1001)

    log.maintain(2000)
    assert log.log_start_offset == 1
    assert len(log.producer_entries()) == 1

    clock.advance(1000)
    log.maintain(2000)
    assert log.producer_entries() == []
    assert not [name for name in disk.list(directory) if name.endswith(".deleted")]


# -- the end ---------------------------------------------------------------------------------------


def test_a_log_that_was_closed_takes_care_of_nothing(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 3)
    assert not log.closed
    log.close()
    assert log.closed
    before = disk.calls
    log.close()
    assert disk.calls == before
    for call in (log.sync, log.flush, log.apply_retention, log.remove_deleted):
        with pytest.raises(LogClosed):
            call()


def test_closing_makes_all_durable_and_the_time_index_whole(
    open_log: OpenLog, disk: CrashDisk, directory: Path
) -> None:
    log = open_log()
    for number in range(3):
        log.append(sample_batch(b"a", timestamp_ms=1000 + number), 7)
    log.flush()
    assert log.segments[0].time_index.count == 0

    log.close()

    assert disk.unsynced_bytes(directory / "00000000000000000000.timeindex") == 0
    assert disk.size(directory / "00000000000000000000.timeindex") > 0
    assert disk.read_bytes(directory / "leader-epoch-checkpoint") == b"0\n1\n7 0\n"


def test_closing_writes_the_epochs_that_a_new_start_has_left(
    log: PartitionLog, disk: CrashDisk, directory: Path
) -> None:
    fill(log, 3)
    log.append(sample_batch(b"a", b"b"), 4)
    log.flush()
    log.segments[0].close_indexes()
    log.flush(force=True)
    log.set_high_watermark(5)
    log.delete_records(4)

    log.close()

    assert disk.read_bytes(directory / "leader-epoch-checkpoint") == b"0\n1\n4 3\n"


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_at_the_end_no_file_stays_open(log: PartitionLog, end: str) -> None:
    fill(log, 3)
    log.flush()
    assert len(log.storage.files) > 0

    getattr(log, end)()

    assert len(log.storage.files) == 0


def test_a_log_that_is_given_up_writes_nothing_more(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 3)
    before = disk.mutations
    log.abandon()
    assert log.closed
    assert disk.mutations == before
    with pytest.raises(LogClosed):
        log.append(sample_batch(b"a"), 0)
