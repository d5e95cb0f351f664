"""Dropping the end of a log, or all of it."""

import pytest

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import (
    InvalidArgument,
)
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill


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


def test_emptying_a_log_starts_it_at_an_offset(log: PartitionLog) -> None:
    fill(log, 50)

    log.truncate_fully_and_start_at(1000)

    assert log.log_start_offset == log.high_watermark == log.log_end_offset == 1000
    assert log.append(sample_batch(b"a"), 0).base_offset == 1000


def test_truncating_below_the_start_empties_the_log(log: PartitionLog) -> None:
    fill(log, 10)
    log.delete_records(8)

    log.truncate_to(5)

    assert log.log_start_offset == log.log_end_offset == 5


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_negative_offset_is_a_wrong_argument(log: PartitionLog, call: str) -> None:
    with pytest.raises(InvalidArgument):
        getattr(log, call)(-1)
