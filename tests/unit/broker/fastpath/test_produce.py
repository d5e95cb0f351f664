"""The fast path serves requests that repeat themselves as the handler would serve them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.broker.fastpath.produce import FastProduceCache
from headrace.broker.network.callback_future import CallbackFuture, future_of
from headrace.broker.network.connection import Parts
from headrace.broker.replica.partition import Partition
from headrace.broker.server import Server
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId, TopicPartition
from headrace.telemetry.log_levels import log_levels
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
    client: str | None = "me",
) -> bytes:
    rows = [ProducePartition(partition, memoryview(batch))]
    request = ProduceRequest(None, acks, timeout_ms, [ProduceTopic(topic, None, rows)])
    return b"".join(pack_produce_request(version, correlation_id, client, request))[4:]


def numbered(sequence: int, *values: bytes) -> bytes:
    return sample_batch(
        *values,
        timestamp_ms=SAMPLE_TIME_MS,
        producer_id=7,
        producer_epoch=0,
        sequence=sequence,
    )


class Producer:
    """Sends to a broker with one topic, in which the first record was appended already."""

    def __init__(self, server: Server) -> None:
        self.broker = server.broker
        self.fast_produces = FastProduceCache(server.broker)
        partition = server.broker.topics.find("clicks", None, 0)
        assert partition is not None
        self.partition = partition
        self.partition.append(sample_batch(b"first"))

    def learn(self, frame: bytes) -> int:
        return self.fast_produces.learn(frame, parse_request(frame))

    def delayed(self, frame: bytes, end: int) -> CallbackFuture[Parts | None]:
        """The response that waits for other replicas."""
        fast_path = self.fast_produces.find(frame, end)
        assert fast_path is not None
        answer = fast_path.serve(frame)
        assert isinstance(answer, CallbackFuture)
        return answer

    def serve(self, frame: bytes, end: int) -> ProducePartitionResult | None:
        """What the fast path answers; None when it declines."""
        fast_path = self.fast_produces.find(frame, end)
        answer = None if fast_path is None else fast_path.serve(frame)
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


def run(folder: Path, scenario: Callable[[Producer], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        async with local_broker(folder, settings) as server:
            configs = {"min.insync.replicas": "1"}
            await server.broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=2, replication_factor=1, configs=configs)]
            )
            await scenario(Producer(server))

    asyncio.run(main())


@pytest.mark.parametrize("acks", [1, -1])
def test_the_next_request_of_a_producer_is_appended_and_answered(tmp_path: Path, acks: int) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a"), acks=acks))

        frame = frame_of(sample_batch(b"b", b"c"), acks=acks, correlation_id=77)
        answer = producer.serve(frame, end)

        assert answer == ProducePartitionResult(0, 0, 1, -1, 0)
        assert producer.partition.log.log_end_offset == 3
        assert producer.partition.log.high_watermark == 3
        assert producer.partition.state.high_watermark == 3

    run(tmp_path, scenario)


def test_the_next_batch_of_an_idempotent_producer_is_served(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        producer.partition.append(numbered(0, b"a", b"b"))
        end = producer.learn(frame_of(numbered(0, b"a", b"b"), acks=-1))

        assert producer.serve(frame_of(numbered(2, b"c"), acks=-1), end) is not None
        # A duplicate and a gap are for the handler to answer.
        assert producer.serve(frame_of(numbered(2, b"c"), acks=-1), end) is None
        assert producer.serve(frame_of(numbered(9, b"z"), acks=-1), end) is None
        assert producer.partition.append(numbered(2, b"c")).duplicate
        assert producer.partition.log.log_end_offset == 4

    run(tmp_path, scenario)


def test_a_request_for_another_partition_must_be_learned_on_its_own(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))
        other = frame_of(sample_batch(b"a"), partition=1)

        assert producer.fast_produces.find(other, end) is None

    run(tmp_path, scenario)


def test_another_version_of_the_same_request_is_left_to_the_handler(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))

        assert producer.serve(frame_of(sample_batch(b"a"), version=10), end) is None

    run(tmp_path, scenario)


def test_a_damaged_batch_is_left_to_the_handler(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))
        damaged = bytearray(sample_batch(b"b"))
        damaged[-2] ^= 1

        assert producer.serve(frame_of(bytes(damaged)), end) is None
        assert producer.partition.log.log_end_offset == 1

    run(tmp_path, scenario)


def test_a_request_that_is_not_answered_or_not_known_is_not_learned(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        assert producer.learn(frame_of(sample_batch(b"a"), acks=0)) == 0
        assert producer.learn(frame_of(sample_batch(b"a"), topic="nothing")) == 0
        assert producer.learn(frame_of(sample_batch(b"a"), topic="__consumer_offsets")) == 0

    run(tmp_path, scenario)


def test_it_declines_when_the_topic_is_gone(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))
        producer.broker.topics.changed(next(iter(producer.broker.topics)))

        assert producer.serve(frame_of(sample_batch(b"b")), end) is None

    run(tmp_path, scenario)


def test_it_declines_when_a_quota_comes_into_force(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))
        producer.broker.quotas.set_limits({(("user", None),): {"producer_byte_rate": 1.0}})

        assert producer.serve(frame_of(sample_batch(b"b")), end) is None
        assert producer.learn(frame_of(sample_batch(b"a"))) == 0

    run(tmp_path, scenario)


def test_it_declines_records_that_must_be_on_disk_first(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))

        assert producer.serve(frame_of(sample_batch(b"b")), end) is None

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


async def answer_of(response: object) -> ProducePartitionResult:
    assert isinstance(response, CallbackFuture)
    [content] = await future_of(response, asyncio.get_running_loop())
    [topic] = read_produce_response(VERSION, memoryview(content), BODY_AT).topics
    return topic.partitions[0]


def test_acks_all_is_answered_when_the_other_replica_has_the_records(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(producer.partition)

        response = producer.delayed(frame_of(sample_batch(b"b"), acks=-1), end)

        assert not response.done()
        assert producer.partition.log.high_watermark == 1
        follower_has_all(producer.partition)
        assert await answer_of(response) == ProducePartitionResult(0, 0, 1, -1, 0)
        assert producer.partition.log.high_watermark == 2

    run(tmp_path, scenario)


def test_acks_1_waits_for_no_replica(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))
        follower_joins(producer.partition)

        answer = producer.serve(frame_of(sample_batch(b"b")), end)

        assert answer == ProducePartitionResult(0, 0, 1, -1, 0)
        assert producer.partition.log.high_watermark == 1

    run(tmp_path, scenario)


def test_records_whose_leader_steps_down_may_be_kept_and_the_answer_says_so(
    tmp_path: Path,
) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(producer.partition)
        response = producer.delayed(frame_of(sample_batch(b"b"), acks=-1), end)

        producer.partition.resign()

        answer = await answer_of(response)
        assert answer.error_code == ErrorCode.not_enough_replicas_after_append

    run(tmp_path, scenario)


@pytest.fixture
def logs_refusals() -> Iterator[None]:
    log_levels.put("headrace.broker.refusal_log", logging.DEBUG)
    yield
    log_levels.clear("headrace.broker.refusal_log")


def test_a_response_that_fails_later_is_logged_with_its_client(
    tmp_path: Path, logs_refusals: None
) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(producer.partition)
        response = producer.delayed(frame_of(sample_batch(b"b"), acks=-1), end)

        with capture_logs() as lines:
            producer.partition.resign()
            await answer_of(response)

        [line] = lines
        assert (line["event"], line["api"], line["client"]) == ("request_refused", "Produce", "me")
        assert line["reasons"].startswith("clicks-0 NOT_ENOUGH_REPLICAS_AFTER_APPEND")

    run(tmp_path, scenario)


def test_a_client_without_a_name_is_logged_without_one(tmp_path: Path, logs_refusals: None) -> None:
    async def scenario(producer: Producer) -> None:
        frame = frame_of(sample_batch(b"a"), acks=-1, client=None)
        end = producer.learn(frame)
        follower_joins(producer.partition)
        response = producer.delayed(frame, end)

        with capture_logs() as lines:
            producer.partition.resign()
            await answer_of(response)

        assert [line["client"] for line in lines] == [""]

    run(tmp_path, scenario)


def test_requests_and_what_they_brought_are_counted(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        metrics, traffic = producer.broker.metrics, producer.partition.traffic
        end = producer.learn(frame_of(sample_batch(b"a")))
        requests = metrics.requests["Produce"]
        size_bytes, records = traffic.bytes_in, traffic.records_in
        batch = sample_batch(b"b", b"c")

        producer.serve(frame_of(batch), end)

        assert metrics.requests["Produce"] == requests + 1
        assert traffic.bytes_in == size_bytes + len(batch)
        assert traffic.records_in == records + 2

    run(tmp_path, scenario)


def test_a_response_that_fails_later_is_counted_by_its_error(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(producer.partition)
        response = producer.delayed(frame_of(sample_batch(b"b"), acks=-1), end)
        producer.partition.resign()

        code = (await answer_of(response)).error_code

        assert producer.broker.metrics.errors["Produce", code] == 1

    run(tmp_path, scenario)


def test_a_batch_waits_behind_those_of_its_partition_that_are_being_opened(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))
        opening = producer.broker.batch_opener.opening

        opening[TopicPartition("clicks", 1)] = None  # type: ignore[assignment]
        assert producer.serve(frame_of(sample_batch(b"b")), end) is not None
        opening[CLICKS] = None  # type: ignore[assignment]
        assert producer.serve(frame_of(sample_batch(b"c")), end) is None
        opening.clear()
        assert producer.serve(frame_of(sample_batch(b"d")), end) is not None

    run(tmp_path, scenario)


def test_an_answer_that_waits_is_not_timed_out_at_once(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        frame = frame_of(sample_batch(b"a"), acks=-1, timeout_ms=60_000)
        end = producer.learn(frame)
        follower_joins(producer.partition)

        response = producer.delayed(frame, end)
        for _ in range(5):
            await asyncio.sleep(0)

        assert not response.done()
        follower_has_all(producer.partition)
        assert (await answer_of(response)).error_code == ErrorCode.none

    run(tmp_path, scenario)


def test_the_oldest_version_with_hints_of_leaders_is_learned_and_none_before(
    tmp_path: Path,
) -> None:
    async def scenario(producer: Producer) -> None:
        assert producer.learn(frame_of(sample_batch(b"a"), version=9)) == 0
        assert producer.learn(frame_of(sample_batch(b"a"), version=10)) > 0

    run(tmp_path, scenario)


def test_no_more_shapes_are_remembered_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.fastpath.produce._MAX_SHAPES", 2)

    async def scenario(producer: Producer) -> None:
        frames = [frame_of(sample_batch(b"a"), timeout_ms=each) for each in (1, 2, 3)]
        known = []
        for frame in frames:
            end = producer.learn(frame)
            known.append([producer.fast_produces.find(each, end) is not None for each in frames])

        assert known == [[True, False, False], [True, True, False], [False, False, True]]
        assert producer.fast_produces.find(frames[2], 0) is None

    run(tmp_path, scenario)


def test_a_leader_that_stepped_down_takes_nothing(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(producer.partition)
        producer.partition.resign()

        assert producer.serve(frame_of(sample_batch(b"b"), acks=-1), end) is None
        assert producer.partition.log.log_end_offset == 1

    run(tmp_path, scenario)


def test_acks_all_with_too_few_in_sync_is_left_to_the_handler(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a"), acks=-1))
        follower_joins(producer.partition)
        producer.partition.state.set_isr({producer.partition.state.broker_id})
        producer.partition.log.config = replace(
            producer.partition.log.config, min_insync_replicas=2
        )
        producer.partition.apply_config()

        assert producer.serve(frame_of(sample_batch(b"b"), acks=-1), end) is None
        assert producer.partition.log.log_end_offset == 1

    run(tmp_path, scenario)


def test_time_that_is_up_is_answered_and_the_records_stay(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a"), acks=-1, timeout_ms=1))
        follower_joins(producer.partition)

        response = producer.delayed(frame_of(sample_batch(b"b"), acks=-1, timeout_ms=1), end)

        answer = await answer_of(response)
        assert answer.error_code == ErrorCode.request_timed_out
        assert producer.partition.log.log_end_offset == 2

    run(tmp_path, scenario)


def test_a_follower_that_waits_for_more_is_woken(tmp_path: Path) -> None:
    class Follower:
        grown_bytes = 0

        def grew(self, size_bytes: int) -> None:
            self.grown_bytes += size_bytes

        def finish(self) -> None:
            raise AssertionError("the broker does not stop here")

    async def scenario(producer: Producer) -> None:
        end = producer.learn(frame_of(sample_batch(b"a")))
        follower = Follower()
        producer.partition.add_replica_waiter(follower)

        batch = sample_batch(b"b")
        producer.serve(frame_of(batch), end)
        producer.partition.remove_replica_waiter(follower)

        assert follower.grown_bytes == len(batch)

    run(tmp_path, scenario)
