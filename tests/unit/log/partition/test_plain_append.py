"""The fast path of an append: what it takes, what it leaves to the slow path, and that it is used.

`tests/property/log/partition/test_plain_append.py` compares the two paths byte for byte.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.partition.appended import Appended
from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import DiskFull, StorageError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, Batch, build_head
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch
from testkit.sample.filled_log import fill

OpenLog = Callable[..., PartitionLog]
EPOCH = 3


@pytest.fixture
def begun(open_log: OpenLog) -> OpenLog:
    """Open a log with one record of the epoch in it: the first one always goes the slow way."""

    def begun(**config: object) -> PartitionLog:
        log = open_log(**config)
        log.append(sample_batch(b"first"), EPOCH, from_client=False)
        return log

    return begun


def plain(log: PartitionLog, batch: bytes, epoch: int | None = EPOCH) -> Appended | None:
    return log.append_plain(memoryview(batch), epoch)


def headed(**head: int) -> bytes:
    """Return a batch of one sound record with an unusual head."""
    rows = bytes(Batch(sample_batch(b"a")).records)
    fields = {
        "last_offset_delta": 0,
        "record_count": 1,
        "base_timestamp": SAMPLE_TIME_MS,
        "max_timestamp": SAMPLE_TIME_MS,
        **head,
    }
    return build_head(rows, **fields) + rows  # type: ignore[arg-type]


def numbered(sequence: int, producer_epoch: int = 0, **batch: object) -> bytes:
    return sample_batch(
        b"a",
        b"b",
        producer_id=0,
        producer_epoch=producer_epoch,
        sequence=sequence,
        **batch,  # type: ignore[arg-type]
    )


# -- what it takes ---------------------------------------------------------------------------------


def test_a_plain_batch_gets_the_next_offsets_and_the_leaders_epoch(begun: OpenLog) -> None:
    log = begun()
    sent = sample_batch(b"a", b"b")

    appended = plain(log, sent)

    assert appended == Appended(1, 2, size_bytes=len(sent))  # type: ignore[arg-type]
    stored = log.read(1, 1000, max_offset=3).read()
    assert (Batch(stored).base_offset, Batch(stored).leader_epoch) == (1, EPOCH)
    assert stored[16:] == sent[16:]
    assert log.size_bytes == len(sample_batch(b"first")) + len(sent)


@pytest.mark.parametrize("codec", Codec)
def test_any_codec_is_plain(begun: OpenLog, codec: Codec) -> None:
    batch = recompressed(Batch(sample_batch(b"a" * 50)), codec, None, max_inflated_bytes=1000)

    assert plain(begun(), bytes(batch.data)) is not None


def test_a_client_is_told_where_the_log_starts(begun: OpenLog) -> None:
    log = begun()
    log.set_high_watermark(1)
    log.delete_records(1)

    appended = plain(log, sample_batch(b"a"))

    assert appended is not None
    assert appended.log_start_offset == 1


def test_the_high_watermark_moves_only_when_no_other_replica_is_in_sync(begun: OpenLog) -> None:
    log = begun()

    plain(log, sample_batch(b"a"))
    assert log.high_watermark == 0

    log.append_plain(memoryview(sample_batch(b"a")), EPOCH, alone=True)
    assert log.high_watermark == log.log_end_offset == 3


def test_a_transaction_that_ended_counts_once_the_high_watermark_has_moved(
    begun: OpenLog,
) -> None:
    log = begun()
    log.append(numbered(0, transactional=True), EPOCH)
    log.append_marker(0, 0, EPOCH, commit=True, coordinator_epoch=0)
    assert log.last_stable_offset == log.high_watermark == 0

    log.append_plain(memoryview(sample_batch(b"a")), EPOCH, alone=True)

    assert log.last_stable_offset == log.high_watermark == 5


def test_a_copy_from_the_leader_is_written_as_it_is(begun: OpenLog) -> None:
    log = begun(max_message_bytes=10, cleanup_policy=("compact",))
    sent = sample_batch(
        b"a", base_offset=1, leader_epoch=EPOCH, timestamp_ms=SAMPLE_TIME_MS + 10**7
    )

    assert plain(log, sent, epoch=None) is not None
    assert log.read(1, 1000, max_offset=2).read() == sent


def test_its_batches_are_in_the_indexes(begun: OpenLog) -> None:
    log = begun(index_interval_bytes=0)
    for number in range(1, 20):
        plain(log, sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS + number))

    log.set_high_watermark(20)
    assert [log.read(at, 1).first_offset for at in range(20)] == list(range(20))
    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 7).offset == 7
    assert log.segments[0].offset_index.count > 10


# -- producers -------------------------------------------------------------------------------------


def test_the_next_batch_of_a_known_producer_is_plain_and_remembered(begun: OpenLog) -> None:
    log = begun()
    log.append(numbered(0), EPOCH)

    appended = plain(log, numbered(2))

    assert appended is not None
    assert plain(log, numbered(2)) is None
    again = log.append(numbered(2), EPOCH)
    assert again.duplicate
    assert (again.base_offset, again.last_offset) == (3, 4)
    [entry] = log.producer_entries()
    assert entry.last_sequence == 3


@pytest.mark.parametrize(
    "batch",
    [numbered(0), numbered(3), numbered(2, producer_epoch=1), numbered(2, transactional=True)],
    ids=["again", "after a gap", "of a new epoch", "of a transaction"],
)
def test_any_other_batch_of_a_producer_is_not(begun: OpenLog, batch: bytes) -> None:
    log = begun()
    log.append(numbered(0), EPOCH)

    assert plain(log, batch) is None
    assert log.log_end_offset == 3


def joined(log: PartitionLog, batch: bytes, epoch: int | None = EPOCH) -> Appended | None:
    return log.append_plain(memoryview(batch), epoch, joined=True)


def test_the_next_batch_of_an_open_transaction_is_plain_and_remembered(begun: OpenLog) -> None:
    log = begun()
    log.append(numbered(0, transactional=True), EPOCH)

    appended = joined(log, numbered(2, transactional=True))

    assert appended is not None
    log.set_high_watermark(5)
    assert (log.log_end_offset, log.last_stable_offset) == (5, 1)
    [entry] = log.producer_entries()
    assert (entry.last_sequence, entry.transaction_first_offset) == (3, 1)
    log.append_marker(0, 0, EPOCH, commit=False, coordinator_epoch=0)
    log.set_high_watermark(6)
    assert log.last_stable_offset == 6
    [aborted] = log.aborted_transactions(0, 6)
    assert (aborted.first_offset, aborted.last_offset) == (1, 5)


def test_a_copied_batch_of_an_open_transaction_is_plain(begun: OpenLog) -> None:
    log = begun()
    log.append(numbered(0, transactional=True), EPOCH)
    copy = numbered(2, transactional=True, base_offset=3, leader_epoch=EPOCH)

    assert joined(log, copy, epoch=None) is not None
    assert log.read(3, 1000, max_offset=5).read() == copy


@pytest.mark.parametrize(
    "batch",
    [
        numbered(2),
        numbered(0, transactional=True),
        numbered(4, transactional=True),
        numbered(2, producer_epoch=1, transactional=True),
        sample_batch(b"a", transactional=True),
    ],
    ids=["of no transaction", "again", "after a gap", "of a new epoch", "of no producer"],
)
def test_any_other_batch_in_a_transaction_is_not(begun: OpenLog, batch: bytes) -> None:
    log = begun()
    log.append(numbered(0, transactional=True), EPOCH)

    assert joined(log, batch) is None
    assert log.log_end_offset == 3


def test_a_batch_that_opens_a_transaction_is_not(begun: OpenLog) -> None:
    log = begun()
    log.append(numbered(0), EPOCH)

    assert joined(log, numbered(2, transactional=True)) is None


def test_a_transactional_batch_is_not_unless_its_partition_is_in_the_transaction(
    begun: OpenLog,
) -> None:
    log = begun()
    log.append(numbered(0, transactional=True), EPOCH)

    assert plain(log, numbered(2, transactional=True)) is None


def test_a_producer_that_is_not_known_is_not(begun: OpenLog) -> None:
    assert plain(begun(), numbered(0)) is None


# -- what it leaves --------------------------------------------------------------------------------


def damaged(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


LEFT = {
    "nothing": b"",
    "a head cut off": sample_batch(b"a")[:60],
    "a batch cut off": sample_batch(b"a")[:-1],
    "two batches": sample_batch(b"a") * 2,
    "an old magic": sample_batch(b"a")[:16] + b"\1" + sample_batch(b"a")[17:],
    "a marker": headed(attributes=CONTROL_BIT | TRANSACTIONAL_BIT),
    "an unknown codec": headed(attributes=5),
    "fewer records than offsets": headed(last_offset_delta=1),
    "more records than offsets": headed(record_count=2),
    "no record at all": build_head(
        b"", last_offset_delta=-1, record_count=0, base_timestamp=0, max_timestamp=0
    ),
    "records without a time": headed(base_timestamp=-1, max_timestamp=-1),
    "a wrong CRC": damaged(sample_batch(b"a")),
    "records that are newer than the head says": headed(max_timestamp=SAMPLE_TIME_MS - 1),
}


@pytest.mark.parametrize("batch", LEFT.values(), ids=LEFT)
def test_what_is_no_plain_batch_is_left_and_changes_nothing(begun: OpenLog, batch: bytes) -> None:
    log = begun()
    before = log.size_bytes

    assert plain(log, batch) is None
    assert (log.log_end_offset, log.size_bytes) == (1, before)


def test_time_zero_is_a_time(begun: OpenLog) -> None:
    assert plain(begun(), headed(base_timestamp=0, max_timestamp=0)) is not None


@pytest.mark.parametrize(
    "config",
    [
        {"cleanup_policy": ("compact",)},
        {"compression_type": "zstd"},
        {"message_timestamp_type": "LogAppendTime"},
        {"message_timestamp_before_max_ms": 1000},
    ],
    ids=lambda config: next(iter(config)),
)
def test_a_topic_that_looks_into_its_batches_takes_none(
    begun: OpenLog, config: dict[str, object]
) -> None:
    assert plain(begun(**config), sample_batch(b"a")) is None


def test_a_batch_may_be_as_large_as_max_message_bytes(open_log: OpenLog) -> None:
    batch = sample_batch(b"v" * 100)
    log = open_log(max_message_bytes=len(batch))
    log.append(sample_batch(b"first"), EPOCH)

    assert plain(log, batch) is not None
    assert plain(log, sample_batch(b"v" * 101)) is None


def test_a_batch_may_be_as_far_ahead_as_the_topic_says(begun: OpenLog, clock: ManualClock) -> None:
    log = begun(message_timestamp_after_max_ms=1000)

    assert plain(log, sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS + 1001)) is None
    assert plain(log, sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS + 1000)) is not None
    assert plain(log, sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS + 999)) is not None
    clock.advance(1)
    assert plain(log, sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS + 1001)) is not None


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1, -1])
def test_another_epoch_is_left(begun: OpenLog, epoch: int) -> None:
    log = begun()

    assert plain(log, sample_batch(b"a"), epoch) is None
    assert plain(log, sample_batch(b"a", base_offset=1, leader_epoch=epoch), None) is None


def test_epoch_zero_is_an_epoch(open_log: OpenLog) -> None:
    log = open_log()
    fill(log, 1)

    assert plain(log, sample_batch(b"a"), 0) is not None


@pytest.mark.parametrize("base_offset", [0, 2])
def test_a_copy_that_does_not_follow_is_left(begun: OpenLog, base_offset: int) -> None:
    batch = sample_batch(b"a", base_offset=base_offset, leader_epoch=EPOCH)

    assert plain(begun(), batch, epoch=None) is None


def test_a_leader_gives_a_batch_its_offset_whatever_it_says(begun: OpenLog) -> None:
    assert plain(begun(), sample_batch(b"a", base_offset=77)) is not None


def test_the_first_batch_of_a_segment_is_left(begun: OpenLog) -> None:
    log = begun()
    log.roll()

    assert plain(log, sample_batch(b"a")) is None


def test_a_batch_that_needs_a_new_segment_is_left(begun: OpenLog) -> None:
    log = begun(segment_bytes=200)

    assert plain(log, sample_batch(b"v" * 100)) is None
    assert len(log.segments) == 1


def test_a_closed_log_takes_nothing(begun: OpenLog) -> None:
    log = begun()
    log.close()

    assert plain(log, sample_batch(b"a")) is None


def test_a_log_of_an_offline_directory_takes_nothing(begun: OpenLog) -> None:
    log = begun()
    log.storage.fail(StorageError("the disk is gone"))

    assert plain(log, sample_batch(b"a")) is None


def test_a_leader_without_an_epoch_is_left_in_a_log_without_one(open_log: OpenLog) -> None:
    log = open_log()
    log.append_as_follower(sample_batch(b"a", leader_epoch=-1))

    assert plain(log, sample_batch(b"a"), -1) is None


# -- a disk that refuses ---------------------------------------------------------------------------


@pytest.mark.parametrize("view", [bytes, memoryview], ids=["slow", "fast"])
def test_a_full_disk_refuses_the_append_and_keeps_no_byte_of_it(
    begun: OpenLog, disk: CrashDisk, view: Callable[[bytes], bytes]
) -> None:
    log = begun()
    log.sync()
    size = log.size_bytes
    disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=30))

    with pytest.raises(DiskFull):
        log.append(view(sample_batch(b"a")), EPOCH)

    assert (log.log_end_offset, log.size_bytes) == (1, size)
    disk.crash(Random(1), loss=Loss.NOTHING, chaos=False)
    assert disk.size(log.segments[0].path) == size


@pytest.mark.parametrize("view", [bytes, memoryview], ids=["slow", "fast"])
def test_a_batch_that_cannot_be_noted_takes_the_directory_offline(
    begun: OpenLog, disk: CrashDisk, view: Callable[[bytes], bytes]
) -> None:
    """It is in the file by then, so that memory and disk differ."""
    log = begun()
    log.append(sample_batch(b"b"), EPOCH)
    log.segments[0].reload_time()
    assert log.segments[0].first_timestamp_ms == SAMPLE_TIME_MS
    disk.inject(Fault(errno.EIO, lambda call: call.name == "pread"))

    with pytest.raises(StorageError, match="cannot append"):
        log.append(view(sample_batch(b"a")), EPOCH)

    assert log.log_end_offset == 2
    assert log.storage.failure is not None


# -- that it is used -------------------------------------------------------------------------------


class CountingClock(ManualClock):
    """The slow path asks for the time; the fast one need not, for a time that has passed."""

    looks = 0

    def wall_ms(self) -> int:
        self.looks += 1
        return super().wall_ms()


def test_append_takes_the_fast_path_for_a_view_of_bytes(disk: CrashDisk, directory: Path) -> None:
    clock = CountingClock()
    log, _ = load_log(
        Storage(disk, clock), TopicPartition("clicks", 0), directory, LogConfig(segment_ms=10**12)
    )
    log.append(sample_batch(b"first"), EPOCH)
    log.append_as_follower(sample_batch(b"a", base_offset=1, leader_epoch=EPOCH))
    clock.looks = 0

    log.append(memoryview(sample_batch(b"a", timestamp_ms=0)), EPOCH)

    assert clock.looks == 0
    assert log.log_end_offset == 3
