"""A response like the last one is appended, and leads to a request like the last one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.replica.fast_follower import Copied, FastFollower
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.log_start_queue import LogStartQueue
from headrace.cluster.topic import random_topic_id
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition
from headrace.records.batch import Batch, stamp
from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    pack_fetch_request,
)
from headrace.wire.follower_answer import FollowerAnswer, pack_follower_answer
from testkit.sample.batch import sample_batch
from testkit.simulation.manual_threads import ManualThreads

VERSION = 17
SESSION = 77
ORDERS = TopicPartition("orders", 2)
TOPIC = random_topic_id()
EPOCH = LeaderEpoch(4)


def stamped(offset: int, *values: bytes, epoch: int = EPOCH) -> bytes:
    """A batch as a leader stored it."""
    batch = Batch(memoryview(sample_batch(*values)))
    head = bytes(stamp(batch, offset, epoch, None))
    return head + bytes(batch.buffer[len(head) :])


class RequestedStarts(LogStartQueue):
    """Collects the log starts that a follower asks for, and moves none."""

    def __init__(self) -> None:
        super().__init__(ManualThreads())
        self.requested: list[int] = []

    def request(self, stored: PartitionLog, log_start: int) -> None:
        self.requested.append(log_start)


class Fetching:
    """A follower that has one record and has asked for the next."""

    def __init__(self, folder: LogDirectory) -> None:
        self.log = folder.create(ORDERS)
        self.log.append_as_follower(stamped(0, b"first"))
        self.log_starts = RequestedStarts()
        self.follower = Follower(ORDERS, TOPIC, self.log, BrokerId(1), EPOCH, self.log_starts)
        self.fast_path = FastFollower()
        self.fast_path.learn(
            self.packed(self.next_fetch(), 1, 1), self.request(self.next_fetch(), 1), self.follower
        )

    def next_fetch(self) -> FetchPartition:
        log = self.log
        return FetchPartition(
            2,
            EPOCH,
            log.log_end_offset,
            self.follower.last_epoch,
            log.log_start_offset,
            1 << 20,
        )

    def request(self, requested: FetchPartition, session_epoch: int) -> FetchRequest:
        topics = [FetchTopic(None, TOPIC, [requested])]
        return FetchRequest(
            500, 1, 1 << 20, 0, topics, SESSION, session_epoch, replica_id=3, replica_epoch=9
        )

    def packed(self, requested: FetchPartition, number: int, session_epoch: int) -> bytes:
        return pack_fetch_request(VERSION, number, "me", self.request(requested, session_epoch))

    def answer(
        self, records: bytes, *, number: int = 1, high_watermark: int = 1, log_start: int = 0
    ) -> memoryview:
        offsets = (high_watermark, high_watermark, log_start)
        answer = FollowerAnswer(number, SESSION, TOPIC.bytes, 2, *offsets, records)
        return memoryview(pack_follower_answer(answer))[4:]

    def serve(self, answer: memoryview, replica_epoch: int = 9) -> Copied | None:
        return self.fast_path.serve(answer, 1, SESSION, 2, replica_epoch)


@pytest.fixture
def fetching(tmp_path: Path) -> Iterator[Fetching]:
    folder = LogDirectory.open(tmp_path)
    yield Fetching(folder)
    folder.close()


def test_the_next_batch_is_appended_and_the_next_request_is_what_the_slow_path_makes(
    fetching: Fetching,
) -> None:
    batch = stamped(1, b"second", b"third")

    copied = fetching.serve(fetching.answer(batch))

    assert copied is not None
    assert (copied.size_bytes, copied.requested) == (len(batch), fetching.next_fetch())
    assert copied.request == fetching.packed(fetching.next_fetch(), 2, 2)
    assert fetching.log.log_end_offset == 3
    assert fetching.log.high_watermark == 1


def test_records_of_a_newer_epoch_and_a_later_start_are_noted(
    fetching: Fetching,
) -> None:
    newer = stamped(1, b"second", epoch=EPOCH + 1)

    copied = fetching.serve(fetching.answer(newer, high_watermark=2, log_start=1))

    assert copied is not None
    # The log starts there later: that waits for the disk.
    assert copied.requested[2:5] == (2, EPOCH + 1, 0)
    assert fetching.log_starts.requested == [1]
    assert copied.request == fetching.packed(fetching.next_fetch(), 2, 2)


def test_what_cannot_be_appended_is_left_to_the_fetcher(fetching: Fetching) -> None:
    assert fetching.serve(fetching.answer(stamped(0, b"again"))) is None
    damaged = bytearray(stamped(1, b"second"))
    damaged[-1] ^= 1
    assert fetching.serve(fetching.answer(bytes(damaged))) is None
    assert fetching.log.log_end_offset == 1


def test_an_answer_to_another_request_is_left_to_the_fetcher(fetching: Fetching) -> None:
    batch = stamped(1, b"second")

    assert fetching.serve(fetching.answer(batch, number=8)) is None
    assert fetching.serve(fetching.answer(batch), replica_epoch=10) is None
    assert fetching.fast_path.serve(fetching.answer(batch), 1, SESSION + 1, 2, 9) is None
    assert fetching.log.log_end_offset == 1


def test_another_epoch_and_what_is_forgotten_are_left_to_the_fetcher(fetching: Fetching) -> None:
    batch = fetching.answer(stamped(1, b"second"))
    fetching.follower.leader_epoch = LeaderEpoch(EPOCH + 1)
    assert fetching.serve(batch) is None

    fetching.follower.leader_epoch = EPOCH
    fetching.fast_path.forget()
    assert fetching.serve(batch) is None
    assert fetching.log.log_end_offset == 1


def test_an_answer_from_above_the_present_log_end_is_left_to_the_fetcher(
    fetching: Fetching,
) -> None:
    fetching.log.truncate_to(0)

    assert fetching.serve(fetching.answer(stamped(1, b"second"))) is None
    assert fetching.log.log_end_offset == 0
