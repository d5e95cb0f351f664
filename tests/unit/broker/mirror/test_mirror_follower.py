"""One partition of a mirror topic: what it takes from its source, and what stops it."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headrace.broker.mirror.mirror_follower import (
    BatchIdentity,
    MirrorFollower,
    MirrorStopped,
    last_batch,
)
from headrace.broker.mirror.producer_fence import put_up_fence
from headrace.broker.replica.partition import Partition
from headrace.log.log_directory import LogDirectory
from headrace.model.error import (
    CorruptBatch,
    InvalidProducerEpoch,
    NotLeader,
    ReadOnlyTopic,
    UnexpectedAppendOffset,
)
from headrace.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import Batch, iter_batches
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)
HERE = LeaderEpoch(7)


class LogStarts:
    """Where log starts are asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def request(self, log: object, start: int) -> None:
        self.asked.append(start)


def mirrored(policy: str = "delete") -> Partition:
    folder = LogDirectory.open(Path("/data"), filesystem=CrashDisk(), background=False)
    log = folder.create(CLICKS)
    log.config = LogConfig(headrace_mirror_link="east", cleanup_policy=(policy,))
    return Partition(CLICKS, log, HERE)


def follow(partition: Partition, last: BatchIdentity | None = None) -> tuple[Any, LogStarts]:
    starts: Any = LogStarts()
    follower = MirrorFollower(
        partition, TopicId(uuid4()), BrokerId(1), LeaderEpoch(3), starts, last
    )
    return follower, starts


def fetched(*batches: bytes) -> memoryview:
    return memoryview(bytearray(b"".join(batches)))


def batch(offset: int, *values: bytes, epoch: int = 3, **rest: Any) -> bytes:
    return sample_batch(*values, base_offset=offset, leader_epoch=epoch, **rest)


def stored(partition: Partition) -> list[Batch]:
    piece = partition.log.read(partition.log.log_start_offset, 1 << 20)
    return list(iter_batches(piece.read()))


def test_offsets_and_gaps_are_kept_and_the_epoch_is_this_clusters() -> None:
    partition = mirrored()
    follower, _ = follow(partition)

    follower.append(fetched(batch(5, b"a", b"b"), batch(20, b"c", epoch=4)), 30, 0)

    assert [(each.base_offset, each.leader_epoch) for each in stored(partition)] == [
        (5, HERE),
        (20, HERE),
    ]
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (21, 21)
    assert (follower.next_offset, follower.last_epoch) == (21, 4)


def test_the_log_start_follows_the_source_as_far_as_records_are_here() -> None:
    follower, starts = follow(mirrored())

    follower.append(fetched(batch(5, b"a", b"b")), 30, 6)
    follower.append(fetched(), 30, 25)

    assert starts.asked == [6, 7]


def test_a_batch_that_reaches_past_the_sources_end_is_not_believed() -> None:
    partition = mirrored()
    follower, _ = follow(partition)

    with pytest.raises(CorruptBatch, match="says that it ends at 30"):
        follower.append(fetched(batch(2**40, b"a")), 30, 0)
    assert partition.log.log_end_offset == 0


class TestComparison:
    """The last batch here against the source's, before anything is copied."""

    def copied(self, policy: str = "delete") -> Partition:
        partition = mirrored(policy)
        follower, _ = follow(partition)
        follower.append(fetched(batch(0, b"a"), batch(1, b"b", b"c")), 3, 0)
        return partition

    def again(self, partition: Partition) -> Any:
        follower, _ = follow(partition, last_batch(partition.log))
        assert follower.next_offset == 1
        return follower

    def test_the_same_batch_is_left_out_and_the_rest_copied(self) -> None:
        partition = self.copied()
        follower = self.again(partition)

        follower.append(fetched(batch(1, b"b", b"c", epoch=9), batch(3, b"d")), 4, 0)

        assert follower.next_offset == partition.log.log_end_offset == 4

    def test_nothing_yet_is_no_comparison(self) -> None:
        follower = self.again(self.copied())

        follower.append(fetched(), 3, 0)

        assert follower.next_offset == 1

    def test_other_records_at_that_offset_stop_it(self) -> None:
        partition = self.copied()

        with pytest.raises(MirrorStopped, match="other records of clicks-0 at offset 1"):
            self.again(partition).append(fetched(batch(1, b"other", b"c"), batch(3, b"d")), 4, 0)
        assert partition.log.log_end_offset == 3

    def test_a_longer_batch_at_that_offset_stops_it(self) -> None:
        with pytest.raises(MirrorStopped):
            self.again(self.copied()).append(fetched(batch(1, b"b", b"c", b"d")), 4, 0)

    def test_what_the_source_has_deleted_cannot_be_compared(self) -> None:
        partition = self.copied()

        self.again(partition).append(fetched(batch(3, b"d")), 4, 3)

        assert partition.log.log_end_offset == 4

    def test_a_hole_in_a_log_that_is_not_compacted_stops_it(self) -> None:
        with pytest.raises(MirrorStopped):
            self.again(self.copied()).append(fetched(batch(3, b"d")), 4, 0)

    def test_what_the_source_has_compacted_cannot_be_compared(self) -> None:
        partition = self.copied("compact")

        self.again(partition).append(fetched(batch(2, b"c"), batch(3, b"d")), 4, 0)

        assert [each.base_offset for each in stored(partition)] == [0, 1, 3]


def test_a_gap_is_gone_on_behind() -> None:
    partition = mirrored()
    follower, _ = follow(partition)
    follower.append(fetched(batch(0, b"a")), 1, 0)

    follower.skip_to(50)
    assert follower.next_offset == 50
    follower.append(fetched(batch(50, b"b")), 51, 50)

    assert [each.base_offset for each in stored(partition)] == [0, 50]


def test_a_batch_below_the_end_is_refused() -> None:
    follower, _ = follow(mirrored())
    follower.append(fetched(batch(0, b"a", b"b")), 2, 0)

    with pytest.raises(UnexpectedAppendOffset):
        follower.append(fetched(batch(1, b"x")), 9, 0)


def test_a_mirror_takes_nothing_but_its_sources_records() -> None:
    partition = mirrored()
    record = memoryview(sample_batch(b"own"))

    with pytest.raises(ReadOnlyTopic, match="promote it"):
        partition.append(record)
    assert partition.append_plain(record, acks_all=False) is None
    with pytest.raises(InvalidProducerEpoch):
        partition.append_marker(1, 0, commit=True, coordinator_epoch=0)
    assert partition.log.log_end_offset == 0


def test_a_promoted_topic_takes_nothing_of_its_source() -> None:
    partition = mirrored()
    follower, _ = follow(partition)
    partition.log.config = LogConfig()

    with pytest.raises(NotLeader):
        follower.append(fetched(batch(0, b"late")), 1, 0)
    partition.append(memoryview(sample_batch(b"own")))

    assert partition.log.log_end_offset == 1


def test_a_fence_ends_transactions_and_forgets_sequences() -> None:
    """Without it the producer here, whose id is another's at the source, would be a duplicate."""
    partition = mirrored()
    follower, _ = follow(partition)
    first = {"producer_id": 5, "producer_epoch": 0, "sequence": 0}
    follower.append(
        fetched(
            batch(0, b"theirs", **first),
            batch(1, b"open", producer_id=6, producer_epoch=2, sequence=0, transactional=True),
        ),
        2,
        0,
    )
    assert partition.log.last_stable_offset == 1

    assert (put_up_fence(partition), put_up_fence(partition)) == (2, 0)
    assert partition.log.last_stable_offset == partition.log.log_end_offset == 4
    partition.log.config = LogConfig()
    ours = partition.append(
        memoryview(sample_batch(b"ours", producer_id=5, producer_epoch=1, sequence=0))
    )

    assert not ours.duplicate
    assert partition.log.log_end_offset == 5
    with pytest.raises(InvalidProducerEpoch):
        partition.append(memoryview(sample_batch(b"ours", **first)))
