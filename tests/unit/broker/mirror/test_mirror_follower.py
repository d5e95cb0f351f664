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
from headrace.broker.mirror.producer_fence import FENCE_ID, put_up_fence
from headrace.broker.replica.partition import Partition
from headrace.log.log_directory import LogDirectory
from headrace.model.error import (
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


def test_a_batch_behind_the_high_watermark_of_its_answer_is_taken() -> None:
    """Apache Kafka notes its high watermark before it reads the records."""
    partition = mirrored()
    follower, _ = follow(partition)

    follower.append(fetched(batch(0, b"a", b"b")), 1, 0)

    assert (partition.log.log_end_offset, follower.source_end) == (2, 2)


def test_what_was_not_appended_leaves_no_trace() -> None:
    follower, _ = follow(mirrored())
    follower.append(fetched(batch(0, b"a")), 1, 0)
    before = follower.last_epoch, follower.newest_ms

    with pytest.raises(UnexpectedAppendOffset):
        follower.append(fetched(batch(0, b"x", epoch=9, timestamp_ms=2**41)), 9, 0)
    assert (follower.last_epoch, follower.newest_ms) == before


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


FIRST: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "sequence": 0}
SECOND: dict[str, Any] = {"producer_id": 6, "producer_epoch": 9, "sequence": 0}


def fenced() -> Partition:
    """A mirror with a batch of one producer and an open transaction of another, fenced."""
    partition = mirrored()
    follower, _ = follow(partition)
    both = fetched(batch(0, b"theirs", **FIRST), batch(1, b"open", transactional=True, **SECOND))
    follower.append(both, 2, 0)
    assert partition.log.last_stable_offset == 1
    assert put_up_fence(partition)
    return partition


def test_a_fence_ends_transactions_and_stays_as_it_is() -> None:
    partition = fenced()
    end = partition.log.log_end_offset

    assert partition.log.last_stable_offset == end
    assert put_up_fence(partition)
    assert partition.log.log_end_offset == end


@pytest.mark.parametrize("first", [FIRST, {**SECOND, "producer_epoch": 0}, SECOND])
def test_behind_a_fence_every_producer_begins_at_its_first_sequence(first: dict[str, Any]) -> None:
    """Without it a producer here, whose id is another's at the source, would be a duplicate, or
    too old."""
    partition = fenced()
    partition.log.config = LogConfig()

    ours = partition.append(memoryview(sample_batch(b"ours", **first)))

    assert not ours.duplicate
    assert partition.append_marker(
        first["producer_id"], first["producer_epoch"], commit=True, coordinator_epoch=0
    )


def test_a_fence_is_a_sign_also_where_nothing_is_fenced() -> None:
    partition = mirrored()

    assert put_up_fence(partition)
    assert [each.producer_id for each in partition.log.producer_entries()] == [FENCE_ID]


def test_many_producers_are_fenced_in_several_turns() -> None:
    partition = mirrored()
    follower, _ = follow(partition)
    for number in range(450):
        one = batch(number, b"x", producer_id=number, producer_epoch=1, sequence=0)
        follower.append(fetched(one), number + 1, 0)

    assert [put_up_fence(partition) for _ in range(4)] == [False, False, True, True]


def test_a_transaction_that_ended_in_a_gap_is_aborted() -> None:
    """Its marker was deleted at the source, and readers of committed records would wait for it."""
    partition = mirrored()
    follower, _ = follow(partition)
    follower.append(fetched(batch(0, b"open", transactional=True, **SECOND)), 1, 0)

    follower.skip_to(50)
    follower.append(fetched(batch(50, b"b")), 51, 50)

    assert partition.log.last_stable_offset == 51


def test_a_gap_too_small_for_its_markers_stops_it() -> None:
    partition = mirrored()
    follower, _ = follow(partition)
    for number in range(3):
        opened = {"producer_id": number, "producer_epoch": 0, "sequence": 0}
        one = batch(number, b"open", transactional=True, **opened)
        follower.append(fetched(one), number + 1, 0)

    with pytest.raises(MirrorStopped, match="3 transactions are open"):
        follower.skip_to(5)
