"""A follower whose records below the leader's log start are others than the leader had."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.replica.partition import Partition
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import LeaderEpoch, TopicPartition
from headrace.replication.divergence import Divergence
from testkit.sample.batch import sample_batch

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    directory = LogDirectory.open(tmp_path, background=False)
    log = directory.create(ORDERS)
    log.append(sample_batch(*[b"x"] * 11), 1)
    yield log
    directory.close()


def lead(log: PartitionLog, epoch: int, records: int) -> Partition:
    """Lead alone, as `ReplicaRoles` does, with one batch if there are records."""
    log.epochs.assign(epoch, log.log_end_offset)
    partition = Partition(ORDERS, log, LeaderEpoch(epoch))
    if records:
        partition.append(sample_batch(*[b"y"] * records))
    return partition


@pytest.mark.parametrize("start", [11, 12, 15])
def test_the_leader_knows_where_its_first_epoch_began(log: PartitionLog, start: int) -> None:
    leader = lead(log, 2, records=4)

    log.delete_records(start)

    assert log.log_start_offset == start
    # Whether it ends behind the log start, or right there.
    assert leader.divergence(1, 17) == Divergence(1, 11)
    assert leader.divergence(1, 15) == Divergence(1, 11)
    assert leader.divergence(2, 15) is None
    assert not leader.must_start_over(2, 15)


def test_a_follower_that_has_all_of_a_log_that_was_emptied_goes_on(log: PartitionLog) -> None:
    """It keeps what it knows of producers, too."""
    log.set_high_watermark(11)
    log.delete_records(11)
    leader = lead(log, 2, records=0)

    assert leader.divergence(1, 11) is None
    assert not leader.must_start_over(1, 11)
    assert leader.divergence(0, 11) == Divergence(0, 0)


def test_what_cannot_be_compared_starts_over(log: PartitionLog) -> None:
    """The leader has begun again at 15 itself: it does not know what was below."""
    log.truncate_fully_and_start_at(15)
    leader = lead(log, 2, records=3)

    assert leader.must_start_over(1, 15)
    assert leader.divergence(1, 16) == Divergence(1, 15)
    # With nothing there is nothing to compare; below the log start the read fails.
    assert not leader.must_start_over(-1, 15)
    assert not leader.must_start_over(1, 14)
