"""Where a partition ends and begins, as its leader says it to clients."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers import list_offsets
from headrace.broker.network.connection import Connection
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic import PartitionRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId, LeaderEpoch
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.request import pack_request, parse_request
from headrace.wire.response import parse_response
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

FOLLOWER = BrokerId(9)
LATEST, EARLIEST, NEWEST = -1, -2, -3
WAITING = cast(Connection, SimpleNamespace(is_hung_up=False))


def run(folder: Path, scenario: Callable[[Broker, Partition], Awaitable[None]]) -> None:
    """Run a scenario with a broker that has just begun to lead two records, of which it does not
    know yet that the other replica has them."""

    async def main() -> None:
        async with local_broker(folder) as server:
            configs = {"min.insync.replicas": "1"}
            await server.broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=1, replication_factor=1, configs=configs)]
            )
            topic = server.broker.topics.by_name("clicks")
            assert topic is not None
            old = cast(Partition, topic.partitions[0])
            old.log.append(sample_batch(b"a", b"b"), 0)
            old.log.set_high_watermark(0)
            node = old.state.broker_id
            record = PartitionRecord(
                replicas=(node, FOLLOWER), isr=(node, FOLLOWER), leader=node, leader_epoch=1
            )
            partition = Partition(old.name, old.log, LeaderEpoch(1), node, record=record)
            topic.partitions[0] = partition
            await scenario(server.broker, partition)

    asyncio.run(main())


async def ask(broker: Broker, timestamp: int, version: int = 9, replica_id: int = -1) -> Any:
    wanted = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    body = {
        "replica_id": replica_id,
        "isolation_level": 0,
        "topics": [{"name": "clicks", "partitions": [wanted]}],
    }
    frame = pack_request(ApiKey.LIST_OFFSETS, version, 1, "me", body)[4:]
    call = Call(WAITING, parse_request(frame))
    response = list_offsets.handle(broker, call)
    if isinstance(response, tuple):  # packed already: nothing is wrong
        _, body = parse_response(ApiKey.LIST_OFFSETS, version, response[0][4:])
        [found] = body.topics[0].partitions
        assert not found.error_code
        return {"offset": found.offset}
    fields = response if isinstance(response, dict) else await response
    [result] = fields["topics"][0]["partitions"]
    return result


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (4, ErrorCode.leader_not_available),
        (5, ErrorCode.offset_not_available),
        (11, ErrorCode.offset_not_available),
    ],
)
@pytest.mark.parametrize("timestamp", [LATEST, SAMPLE_TIME_MS])
def test_a_new_leader_does_not_say_where_the_log_ends_before_it_knows(
    tmp_path: Path, version: int, code: ErrorCode, timestamp: int
) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        assert (await ask(broker, timestamp, version))["error_code"] == code
        assert (await ask(broker, EARLIEST, version))["offset"] == 0

        partition.follower_fetched(FOLLOWER, 2, now_ms=0, broker_epoch=1)

        assert (await ask(broker, LATEST, version))["offset"] == 2
        assert (await ask(broker, SAMPLE_TIME_MS, version))["offset"] == 0

    run(tmp_path, scenario)


def test_later_records_that_are_not_replicated_yet_change_nothing(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        partition.follower_fetched(FOLLOWER, 2, now_ms=0, broker_epoch=1)
        partition.append(sample_batch(b"c"))

        assert (await ask(broker, LATEST))["offset"] == 2

    run(tmp_path, scenario)


def test_the_newest_record_is_one_that_can_be_read(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        assert (await ask(broker, NEWEST))["error_code"] == ErrorCode.offset_not_available
        partition.follower_fetched(FOLLOWER, 2, now_ms=0, broker_epoch=1)
        partition.append(sample_batch(b"c", timestamp_ms=SAMPLE_TIME_MS + 1))

        assert (await ask(broker, NEWEST))["offset"] == -1

        partition.follower_fetched(FOLLOWER, 3, now_ms=0, broker_epoch=1)
        assert (await ask(broker, NEWEST))["offset"] == 2

    run(tmp_path, scenario)


def test_a_tool_that_looks_at_replicas_is_answered_at_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        assert (await ask(broker, LATEST, replica_id=-2)).get("error_code", 0) == 0

    run(tmp_path, scenario)


def test_no_task_is_made_for_the_ends_of_a_log(tmp_path: Path) -> None:
    """librdkafka asks for each partition by itself."""

    async def scenario(broker: Broker, partition: Partition) -> None:
        partition.follower_fetched(FOLLOWER, 2, now_ms=0, broker_epoch=1)
        wanted = [
            {"partition_index": index, "current_leader_epoch": -1, "timestamp": EARLIEST}
            for index in (0, 1)
        ]
        body = {"replica_id": -1, "isolation_level": 0}
        for partitions, kind in ((wanted[:1], tuple), (wanted, dict)):
            topics = [{"name": "clicks", "partitions": partitions}]
            frame = pack_request(ApiKey.LIST_OFFSETS, 7, 1, "me", {**body, "topics": topics})[4:]
            call = Call(WAITING, parse_request(frame))
            assert type(list_offsets.handle(broker, call)) is kind

    run(tmp_path, scenario)


def test_what_is_known_at_once_is_answered_beside_what_is_searched(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        partition.follower_fetched(FOLLOWER, 2, now_ms=0, broker_epoch=1)
        times = (EARLIEST, SAMPLE_TIME_MS, LATEST)
        wanted = [
            {"partition_index": index, "current_leader_epoch": -1, "timestamp": time}
            for index, time in ((0, times[0]), (0, times[1]), (0, times[2]), (9, LATEST))
        ]
        body = {
            "replica_id": -1,
            "isolation_level": 1,
            "topics": [{"name": "clicks", "partitions": wanted}],
        }
        frame = pack_request(ApiKey.LIST_OFFSETS, 7, 1, "me", body)[4:]
        answer = list_offsets.handle(broker, Call(WAITING, parse_request(frame)))
        assert not isinstance(answer, tuple | dict)

        [topic] = (await answer)["topics"]

        assert [each.get("offset") for each in topic["partitions"]] == [0, 0, 2, None]
        assert topic["partitions"][3]["error_code"] == ErrorCode.unknown_topic_or_partition

    run(tmp_path, scenario)


def test_a_partition_is_not_searched_twice(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        partition.follower_fetched(FOLLOWER, 2, now_ms=0, broker_epoch=1)

        answers = await search(broker, WAITING, SAMPLE_TIME_MS, LATEST, SAMPLE_TIME_MS + 1)

        assert [each.get("error_code", 0) for each in answers] == [
            ErrorCode.invalid_request,
            ErrorCode.none,
            ErrorCode.invalid_request,
        ]

    run(tmp_path, scenario)


def test_nothing_is_searched_for_a_client_that_has_left(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        partition.follower_fetched(FOLLOWER, 2, now_ms=0, broker_epoch=1)
        left = cast(Connection, SimpleNamespace(is_hung_up=True))

        assert await search(broker, left, SAMPLE_TIME_MS) == []

    run(tmp_path, scenario)


async def search(broker: Broker, connection: Connection, *times: int) -> list[Any]:
    """Ask for one partition at several times."""
    wanted = [
        {"partition_index": 0, "current_leader_epoch": -1, "timestamp": time} for time in times
    ]
    topics = [{"name": "clicks", "partitions": wanted}]
    body = {"replica_id": -1, "isolation_level": 1, "topics": topics}
    frame = pack_request(ApiKey.LIST_OFFSETS, 7, 1, "me", body)[4:]
    answer = list_offsets.handle(broker, Call(connection, parse_request(frame)))
    assert not isinstance(answer, tuple | dict)
    return [each for topic in (await answer)["topics"] for each in topic["partitions"]]
