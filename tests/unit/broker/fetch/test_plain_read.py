"""Partitions that are read plainly are answered as if each had been looked at in full."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.fetch.consumer_fetch import ConsumerFetch
from headrace.broker.fetch.fetch_result import PartitionResult
from headrace.broker.fetch.follower_fetch import FollowerFetch
from headrace.broker.fetch.plain_read import PlainReads
from headrace.broker.network.connection import Connection
from headrace.broker.replica.fetch_session import FetchedPartition
from headrace.cluster.state import Put
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.partition.log_reader import LogReader
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import StorageError
from headrace.model.ids import BrokerId, LeaderEpoch
from headrace.testing.local_broker import local_broker
from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    pack_fetch_request,
)
from headrace.wire.request import parse_request
from testkit.sample.batch import sample_batch

PARTITIONS = 8
VERSION = 17
OTHER = BrokerId(7)


def reader(
    broker: Broker, topics: list[FetchTopic], *, max_bytes: int, committed: bool
) -> ConsumerFetch:
    request = FetchRequest(0, 1, max_bytes, int(committed), topics)
    frame = memoryview(pack_fetch_request(VERSION, 1, "c", request))[4:]
    call = Call(cast(Connection, None), parse_request(frame))
    admission = broker.fetch_sessions.admit(call.body, 0, by_id=True)
    return ConsumerFetch(broker, call, call.body, admission)


def compared(broker: Broker, topics: list[FetchTopic], max_bytes: int, committed: bool) -> int:
    """Read with and without a look at each partition, and return how many were not looked at."""
    quick = reader(broker, topics, max_bytes=max_bytes, committed=committed)
    looked_at: list[object] = []
    real = ConsumerFetch._read_partition

    def look(self: ConsumerFetch, item: FetchedPartition, *limits: Any) -> PartitionResult:
        looked_at.append(item)
        return real(self, item, *limits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConsumerFetch, "_read_partition", look)
        answers = quick.read()
    thorough = reader(broker, topics, max_bytes=max_bytes, committed=committed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConsumerFetch, "_plain_reads", lambda _: None)
        expected = thorough.read()
    assert [result for _, result in answers[0]] == [result for _, result in expected[0]]
    assert answers[1] == expected[1]
    assert quick.failed == thorough.failed
    return len(answers[0]) - len(looked_at)


def topic_id(broker: Broker, name: str = "clicks") -> UUID:
    topic = broker.topics.by_name(name)
    assert topic is not None
    return topic.topic_id


async def filled(broker: Broker) -> None:
    """Topics of which some partitions have records, and one a higher log start."""
    await broker.controller.create_topics(
        [TopicToCreate(name=name, partitions=PARTITIONS) for name in ("clicks", "views")]
    )
    for index in range(0, PARTITIONS, 2):
        partition = broker.topics.find("clicks", None, index)
        assert partition is not None
        for _ in range(3):
            partition.append(sample_batch(b"x" * 50))
    first = broker.topics.find("clicks", None, 0)
    assert first is not None
    first.log.delete_records(1)


@pytest.mark.parametrize("committed", [False, True], ids=["all", "committed"])
def test_every_fetch_answers_as_a_look_at_each_partition_does(
    tmp_path: Path, committed: bool
) -> None:
    async def run() -> None:
        rolls = random.Random(19)
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await filled(broker)
            ids = [topic_id(broker), topic_id(broker, "views"), uuid4()]
            plain = 0
            for _ in range(200):
                topics = [
                    FetchTopic(
                        None,
                        rolls.choice(ids),
                        [
                            FetchPartition(
                                rolls.randint(-1, PARTITIONS),
                                rolls.choice([-1, -1, 0, 0, 1]),
                                rolls.randint(-1, 4),
                                rolls.choice([-1, -1, -1, 0]),
                                -1,
                                rolls.choice([0, 100, 1 << 20]),
                            )
                            for _ in range(rolls.randint(1, 6))
                        ],
                    )
                    for _ in range(rolls.randint(1, 4))
                ]
                plain += compared(broker, topics, rolls.choice([0, 1, 150, 1 << 20]), committed)

            assert plain > 100

    asyncio.run(run())


def test_a_response_with_less_room_than_any_batch_takes_searches_no_further_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    real = LogReader._read

    def read(self: LogReader, offset: int, *limits: Any) -> LogSlice:
        searched.append(offset)
        return real(self, offset, *limits)

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=PARTITIONS)]
            )
            batch = sample_batch(b"x" * 1000)
            for index in range(PARTITIONS):
                partition = broker.topics.find("clicks", None, index)
                assert partition is not None
                partition.append(batch)
            wanted = [FetchPartition(each, -1, 0, -1, -1, 1 << 20) for each in range(PARTITIONS)]
            topics = [FetchTopic(None, topic_id(broker), wanted)]
            room = 2 * len(batch) + 10  # for two batches and a little more
            monkeypatch.setattr(LogReader, "_read", read)

            _, size = reader(broker, topics, max_bytes=room, committed=False).read()
            assert size == 2 * len(batch)
            assert len(searched) == 2

            # Unless the client waits for more than that.
            fetch = reader(broker, topics, max_bytes=room, committed=False)
            fetch._request = fetch._request._replace(min_bytes=room)
            fetch.read()
            assert len(searched) == 2 + PARTITIONS

    asyncio.run(run())


def everything(broker: Broker) -> list[FetchTopic]:
    wanted = [FetchPartition(index, -1, 0, -1, -1, 1 << 20) for index in range(1, PARTITIONS, 2)]
    return [FetchTopic(None, topic_id(broker), wanted)]


def fail_directory(broker: Broker) -> None:
    for directory in broker.storage.directories:
        directory._storage.fail(StorageError("the disk is gone"))


def test_a_disk_that_has_failed_is_noticed(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await filled(broker)
            topics = everything(broker)
            assert compared(broker, topics, 1 << 20, False) == PARTITIONS // 2
            fail_directory(broker)

            assert compared(broker, topics, 1 << 20, False) == 0

    asyncio.run(run())


def test_a_partition_that_another_broker_leads_is_noticed(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await filled(broker)
            topics = everything(broker)
            topic = broker.topics.by_name("clicks")
            assert topic is not None
            gone = tuple(
                replace(each, leader=OTHER, isr=(OTHER,), leader_epoch=LeaderEpoch(1))
                for each in topic.record.partitions
            )
            await broker.applier.apply([Put(replace(topic.record, partitions=gone))])

            assert compared(broker, topics, 1 << 20, False) == 0

    asyncio.run(run())


def test_each_partition_is_looked_at_where_there_are_acls_or_racks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await filled(broker)
            fetch = reader(broker, everything(broker), max_bytes=1, committed=False)
            assert isinstance(fetch._plain_reads(), PlainReads)
            fetch._request = fetch._request._replace(rack_id="a")
            assert fetch._plain_reads() is None
            fetch._request = fetch._request._replace(rack_id="")
            monkeypatch.setattr(broker.guard, "authorizer", object())
            assert fetch._plain_reads() is None

    asyncio.run(run())


def test_a_followers_fetch_looks_at_each_partition() -> None:
    plain: Callable[[FollowerFetch], None] = FollowerFetch._plain_reads

    assert plain(cast(FollowerFetch, None)) is None  # type: ignore[func-returns-value]
