"""DeleteRecords answers when the replicas that are running have moved their log starts."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers import delete_records
from headrace.broker.network.connection import Connection
from headrace.broker.replica.partition import Partition
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.request import pack_request, parse_request
from testkit.sample.batch import sample_batch

FOLLOWER = BrokerId(9)
LONG_MS = 60_000


class LogStartNews:
    """A follower's fetch that waits, and is answered with the new log start."""

    def __init__(self) -> None:
        self.answered = False

    def grew(self, size_bytes: int) -> None:
        raise AssertionError("nothing was appended")

    def finish(self) -> None:
        self.answered = True


def run(folder: Path, scenario: Callable[[Broker, Partition], Awaitable[None]]) -> None:
    """Run a scenario with ten records, and a follower that runs and has all of them."""

    async def main() -> None:
        async with local_broker(folder) as server:
            broker = server.broker
            configs = {"min.insync.replicas": "1"}
            await broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=1, replication_factor=1, configs=configs)]
            )
            topic = broker.topics.by_name("clicks")
            assert topic is not None
            partition = cast(Partition, topic.partitions[0])
            partition.append(sample_batch(*[b"x"] * 10))
            partition.state.set_replicas({partition.state.broker_id, FOLLOWER}, 0)
            broker.members[FOLLOWER] = BrokerRecord(broker_id=FOLLOWER, endpoints=())
            partition.follower_started(FOLLOWER, 0)
            async with asyncio.timeout(60):
                await scenario(broker, partition)

    asyncio.run(main())


async def delete(broker: Broker, before: int, timeout_ms: int = LONG_MS) -> Any:
    partition = {"partition_index": 0, "offset": before}
    body = {"topics": [{"name": "clicks", "partitions": [partition]}], "timeout": timeout_ms}
    frame = pack_request(ApiKey.DELETE_RECORDS, 2, 1, "me", body)[4:]
    call = Call(cast(Connection, None), parse_request(frame))
    response = await delete_records.handle(broker, call)
    [result] = response["topics"][0]["partitions"]
    return result["error_code"], result["low_watermark"]


async def waits(partition: Partition) -> None:
    while not partition._start_waiters:
        await asyncio.sleep(0.001)


def test_it_waits_for_a_follower_that_runs(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        fetch = LogStartNews()
        partition.add_replica_waiter(fetch)
        answer = asyncio.create_task(delete(broker, 5))
        await waits(partition)
        assert fetch.answered
        assert partition.log.log_start_offset == 5
        partition.follower_started(FOLLOWER, 3)
        await waits(partition)
        assert not answer.done()

        partition.follower_started(FOLLOWER, 6)

        assert await answer == (ErrorCode.none, 5)
        partition.remove_replica_waiter(fetch)

    run(tmp_path, scenario)


def test_its_time_may_be_up_before(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        assert await delete(broker, 5, timeout_ms=20) == (ErrorCode.request_timed_out, -1)
        assert partition.log.log_start_offset == 5

    run(tmp_path, scenario)


def test_a_follower_that_stops_running_is_not_waited_for_any_more(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        answer = asyncio.create_task(delete(broker, 5))
        await waits(partition)

        del broker.members[FOLLOWER]

        assert await answer == (ErrorCode.none, 5)

    run(tmp_path, scenario)


def test_a_leader_that_steps_down_says_so(tmp_path: Path) -> None:
    async def scenario(broker: Broker, partition: Partition) -> None:
        answer = asyncio.create_task(delete(broker, 5))
        await waits(partition)

        partition.resign()

        assert await answer == (ErrorCode.not_leader_or_follower, -1)

    run(tmp_path, scenario)
