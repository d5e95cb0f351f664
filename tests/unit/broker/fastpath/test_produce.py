"""Requests that repeat themselves are served in a lane as the handler would serve them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker.fastpath.produce import ProduceLanes
from headrace.broker.network.callback_future import Promise, future_of
from headrace.broker.network.connection import Parts
from headrace.broker.replica.partition import Partition
from headrace.broker.server import Server
from headrace.cluster.topic_command import NewTopic
from headrace.model.ids import BrokerId, TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from headrace.wire.produce_response import ProducePartitionResult, read_produce_response
from headrace.wire.request import parse_request
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

VERSION = 11
BODY_AT = 9  # behind size, correlation id and no tags
CLICKS = TopicPartition("clicks", 0)
FOLLOWER = BrokerId(9)


def frame_of(
    batch: bytes,
    *,
    topic: str = "clicks",
    partition: int = 0,
    acks: int = 1,
    correlation_id: int = 1,
    version: int = VERSION,
    timeout_ms: int = 30_000,
) -> bytes:
    rows = [ProducePartition(partition, memoryview(batch))]
    request = ProduceRequest(None, acks, timeout_ms, [ProduceTopic(topic, None, rows)])
    return b"".join(pack_produce_request(version, correlation_id, "me", request))[4:]


def numbered(sequence: int, *values: bytes) -> bytes:
    return sample_batch(
        *values,
        timestamp_ms=SAMPLE_TIME_MS,
        producer_id=7,
        producer_epoch=0,
        sequence=sequence,
    )


class Lanes:
    """The lanes of a broker with one topic, in which the first record was appended already."""

    def __init__(self, server: Server) -> None:
        self.broker = server.broker
        self.lanes = ProduceLanes(server.broker)
        partition = server.broker.topics.find("clicks", None, 0)
        assert partition is not None
        self.partition = partition
        self.partition.append(sample_batch(b"first"))

    def open(self, frame: bytes) -> int:
        return self.lanes.open(frame, parse_request(frame))

    def promise(self, frame: bytes, end: int) -> Promise[Parts | None]:
        lane = self.lanes.find(frame, end)
        assert lane is not None
        answer = lane.serve(frame)
        assert isinstance(answer, Promise)
        return answer

    def serve(self, frame: bytes, end: int) -> ProducePartitionResult | None:
        """What the lane answers; None when it leaves the request to the handler."""
        lane = self.lanes.find(frame, end)
        answer = None if lane is None else lane.serve(frame)
        if answer is None:
            return None
        assert isinstance(answer, tuple)
        [content] = answer
        assert isinstance(content, bytes)
        assert int.from_bytes(content[:4]) == len(content) - 4
        assert content[4:8] == frame[4:8]
        [topic] = read_produce_response(VERSION, memoryview(content), BODY_AT).topics
        assert topic.name == "clicks"
        return topic.partitions[0]


def run(folder: Path, scenario: Callable[[Lanes], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        async with local_broker(folder, settings) as server:
            configs = {"min.insync.replicas": "1"}
            await server.broker.controller.create_topics(
                [NewTopic(name="clicks", partitions=2, replication_factor=1, configs=configs)]
            )
            await scenario(Lanes(server))

    asyncio.run(main())


@pytest.mark.parametrize("acks", [1, -1])
def test_the_next_request_of_a_producer_is_appended_and_answered(tmp_path: Path, acks: int) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a"), acks=acks))

        frame = frame_of(sample_batch(b"b", b"c"), acks=acks, correlation_id=77)
        answer = lanes.serve(frame, end)

        assert answer == ProducePartitionResult(0, 0, 1, -1, 0)
        assert lanes.partition.log.log_end_offset == 3
        assert lanes.partition.log.high_watermark == 3
        assert lanes.partition.state.high_watermark == 3

    run(tmp_path, scenario)


def test_the_next_batch_of_an_idempotent_producer_goes_the_short_way(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        lanes.partition.append(numbered(0, b"a", b"b"))
        end = lanes.open(frame_of(numbered(0, b"a", b"b"), acks=-1))

        assert lanes.serve(frame_of(numbered(2, b"c"), acks=-1), end) is not None
        # A duplicate and a gap are for the handler to answer.
        assert lanes.serve(frame_of(numbered(2, b"c"), acks=-1), end) is None
        assert lanes.serve(frame_of(numbered(9, b"z"), acks=-1), end) is None
        assert lanes.partition.append(numbered(2, b"c")).duplicate
        assert lanes.partition.log.log_end_offset == 4

    run(tmp_path, scenario)


def test_a_request_for_another_partition_needs_a_lane_of_its_own(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a")))
        other = frame_of(sample_batch(b"a"), partition=1)

        assert lanes.lanes.find(other, end) is None

    run(tmp_path, scenario)


def test_another_version_of_the_same_request_is_left_to_the_handler(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a")))

        assert lanes.serve(frame_of(sample_batch(b"a"), version=10), end) is None

    run(tmp_path, scenario)


def test_a_damaged_batch_is_left_to_the_handler(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a")))
        damaged = bytearray(sample_batch(b"b"))
        damaged[-2] ^= 1

        assert lanes.serve(frame_of(bytes(damaged)), end) is None
        assert lanes.partition.log.log_end_offset == 1

    run(tmp_path, scenario)


def test_no_lane_opens_for_a_request_that_is_not_answered_or_not_known(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        assert lanes.open(frame_of(sample_batch(b"a"), acks=0)) == 0
        assert lanes.open(frame_of(sample_batch(b"a"), topic="nothing")) == 0
        assert lanes.open(frame_of(sample_batch(b"a"), topic="__consumer_offsets")) == 0

    run(tmp_path, scenario)


def test_a_lane_ends_with_its_topic(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a")))
        lanes.broker.topics.changed()

        assert lanes.serve(frame_of(sample_batch(b"b")), end) is None

    run(tmp_path, scenario)


def test_a_lane_stands_aside_when_a_quota_comes_into_force(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a")))
        lanes.broker.quotas.set_limits({(("user", None),): {"producer_byte_rate": 1.0}})

        assert lanes.serve(frame_of(sample_batch(b"b")), end) is None
        assert lanes.open(frame_of(sample_batch(b"a"))) == 0

    run(tmp_path, scenario)


def test_records_that_must_be_on_disk_first_go_the_long_way(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a")))

        assert lanes.serve(frame_of(sample_batch(b"b")), end) is None

    run(tmp_path, scenario, **{"log.flush.interval.messages": "1"})


def follower_joins(partition: Partition) -> None:
    """From now on broker 9 is in sync too, and has everything so far."""
    state = partition.state
    state.set_replicas({state.broker_id, FOLLOWER}, 0)
    follower_has_all(partition)
    state.set_isr({state.broker_id, FOLLOWER})


def follower_has_all(partition: Partition) -> None:
    end = partition.log.log_end_offset
    partition.follower_fetched(FOLLOWER, end, now_ms=0, broker_epoch=1)


async def answer_of(promise: object) -> ProducePartitionResult:
    assert isinstance(promise, Promise)
    [content] = await future_of(promise, asyncio.get_running_loop())
    [topic] = read_produce_response(VERSION, memoryview(content), BODY_AT).topics
    return topic.partitions[0]


def test_acks_all_is_answered_when_the_other_replica_has_the_records(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(lanes.partition)

        promise = lanes.promise(frame_of(sample_batch(b"b"), acks=-1), end)

        assert not promise.done()
        assert lanes.partition.log.high_watermark == 1
        follower_has_all(lanes.partition)
        assert await answer_of(promise) == ProducePartitionResult(0, 0, 1, -1, 0)
        assert lanes.partition.log.high_watermark == 2

    run(tmp_path, scenario)


def test_acks_1_waits_for_nobody(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a")))
        follower_joins(lanes.partition)

        answer = lanes.serve(frame_of(sample_batch(b"b")), end)

        assert answer == ProducePartitionResult(0, 0, 1, -1, 0)
        assert lanes.partition.log.high_watermark == 1

    run(tmp_path, scenario)


def test_records_whose_leader_steps_down_may_be_kept_and_the_answer_says_so(
    tmp_path: Path,
) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(lanes.partition)
        promise = lanes.promise(frame_of(sample_batch(b"b"), acks=-1), end)

        lanes.partition.resign()

        answer = await answer_of(promise)
        assert answer.error_code == ErrorCode.not_enough_replicas_after_append

    run(tmp_path, scenario)


def test_a_leader_that_stepped_down_takes_nothing_in_a_lane(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(lanes.partition)
        lanes.partition.resign()

        assert lanes.serve(frame_of(sample_batch(b"b"), acks=-1), end) is None
        assert lanes.partition.log.log_end_offset == 1

    run(tmp_path, scenario)


def test_acks_all_with_too_few_in_sync_is_left_to_the_handler(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(lanes.partition)
        lanes.partition.state.set_isr({lanes.partition.state.broker_id})
        lanes.partition.log.config = replace(lanes.partition.log.config, min_insync_replicas=2)
        lanes.partition.apply_config()

        assert lanes.serve(frame_of(sample_batch(b"b"), acks=-1), end) is None
        assert lanes.partition.log.log_end_offset == 1

    run(tmp_path, scenario)


def test_time_that_is_up_is_answered_and_the_records_stay(tmp_path: Path) -> None:
    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a"), acks=-1, timeout_ms=1))
        follower_joins(lanes.partition)

        promise = lanes.promise(frame_of(sample_batch(b"b"), acks=-1, timeout_ms=1), end)

        answer = await answer_of(promise)
        assert answer.error_code == ErrorCode.request_timed_out
        assert lanes.partition.log.log_end_offset == 2

    run(tmp_path, scenario)


def test_a_follower_that_waits_for_more_hears_of_it(tmp_path: Path) -> None:
    class Follower:
        told = 0

        def grew(self, size_bytes: int) -> None:
            self.told += size_bytes

        def finish(self) -> None:
            raise AssertionError("nobody stops here")

    async def scenario(lanes: Lanes) -> None:
        end = lanes.open(frame_of(sample_batch(b"a")))
        follower = Follower()
        lanes.partition.add_replica_waiter(follower)

        batch = sample_batch(b"b")
        lanes.serve(frame_of(batch), end)
        lanes.partition.remove_replica_waiter(follower)

        assert follower.told == len(batch)

    run(tmp_path, scenario)
