"""What a log remembers of idempotent producers, and which of their batches it refuses."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import (
    InvalidProducerEpoch,
    OutOfOrderSequence,
)
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import sample_batch

OpenLog = Callable[..., PartitionLog]


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
