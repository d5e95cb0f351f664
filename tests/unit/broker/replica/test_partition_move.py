"""A led partition whose replicas change: what it counts, and what it shows."""

from pathlib import Path

import pytest

from headrace.broker.replica.partition import Partition
from headrace.cluster.topic import PartitionRecord
from headrace.log.partition.loader import load_log
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import sample_batch

NAME = TopicPartition("orders", 0)


def record(replicas, isr, epoch):
    return PartitionRecord(
        replicas=replicas, leader=1, isr=isr, leader_epoch=5, partition_epoch=epoch
    )


@pytest.fixture
def partition():
    """Led by 1, with 2 and 3 in sync; 3 has fetched nothing yet."""
    disk, path = CrashDisk(), Path("/data/orders-0")
    disk.make_directory(path)
    log, _ = load_log(Storage(disk, ManualClock()), NAME, path, LogConfig(min_insync_replicas=2))
    partition = Partition(NAME, log, 5, 1, record=record((1, 2, 3), (1, 2, 3), 1))
    partition.append(sample_batch(b"a", b"b"), acks_all=True)
    partition.follower_fetched(2, 2, now_ms=10, broker_epoch=0)
    return partition


def test_what_is_committed_without_the_replica_that_left_is_shown_at_once(partition):
    committed = partition.when_committed(2)
    assert not committed.done()

    partition.apply_record(record((1, 2), (1, 2), 2), now_ms=20)

    assert partition.log.high_watermark == 2
    assert committed.exception() is None
    assert committed.done()


def test_a_replica_that_left_is_none_any_more(partition):
    partition.apply_record(record((1, 2), (1, 2), 2), now_ms=20)

    assert partition.state.replicas == {1, 2}


def test_a_proposal_that_was_refused_shows_what_it_held_back(partition):
    partition.apply_record(record((1, 2, 3), (1, 2), 2), now_ms=20)
    partition.state.propose((1, 2, 3))
    partition.append(sample_batch(b"c"), acks_all=False)
    partition.follower_fetched(2, 3, now_ms=30, broker_epoch=0)
    committed = partition.when_committed(3)
    assert not committed.done()

    partition.withdraw()

    assert partition.log.high_watermark == 3
    assert committed.done()


def test_an_older_record_changes_nothing(partition):
    partition.apply_record(record((1, 2), (1, 2), 2), now_ms=20)
    partition.apply_record(record((1, 2, 3), (1, 2, 3), 1), now_ms=30)

    assert partition.state.replicas == {1, 2}


def test_a_leader_of_before_moves_the_high_watermark_of_its_successor_no_more(partition):
    """A broker that was cut off may withdraw a proposal when it leads the same log again."""
    partition.apply_record(record((1, 2, 3), (1, 2), 2), now_ms=20)
    partition.state.propose((1, 2, 3))
    partition.append(sample_batch(b"c"), acks_all=False)
    partition.follower_fetched(2, 3, now_ms=30, broker_epoch=0)
    partition.resign()
    led_again = Partition(NAME, partition.log, 7, 1, record=record((1,), (1,), 3))
    led_again.append(sample_batch(b"d"))
    assert partition.log.high_watermark == 4

    partition.withdraw()

    assert partition.log.high_watermark == 4
