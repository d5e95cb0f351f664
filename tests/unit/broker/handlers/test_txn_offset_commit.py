"""Offsets that a transaction commits belong to the topic that was read, not to its name alone."""

import asyncio
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers import txn_offset_commit
from headrace.broker.network.connection import Connection
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.transactions.message import EndTransaction, InitProducerId
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.request import pack_request, parse_request

CLICKS = TopicPartition("clicks", 0)


async def commit_in_a_transaction(broker: Broker, topic: str) -> ErrorCode:
    """Commit offset 7 of a topic for group g, in a transaction that is committed."""
    began = await broker.transactions.init_producer_id(
        InitProducerId(transactional_id="t", timeout_ms=60_000)
    )
    ids: dict[str, Any] = {
        "producer_id": began.producer_id,
        "producer_epoch": began.producer_epoch,
    }
    offset = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1}
    body = {
        "transactional_id": "t",
        "group_id": "g",
        **ids,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [{**offset, "committed_metadata": None}]}],
    }
    frame = pack_request(ApiKey.TXN_OFFSET_COMMIT, 5, 1, "me", body)[4:]
    answer = await txn_offset_commit.handle(
        broker, Call(cast(Connection, None), parse_request(frame))
    )
    await broker.transactions.end_transaction(
        EndTransaction(transactional_id="t", commit=True, **ids)
    )
    code: ErrorCode = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def test_offsets_are_forgotten_with_their_topic_and_not_with_an_earlier_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([TopicToCreate(name="clicks")])
            assert await commit_in_a_transaction(broker, "clicks") is ErrorCode.none
            registry = await broker.groups.registry("g")
            assert registry.fetch_offsets("g", [CLICKS])[CLICKS].offset == 7
            topic = broker.topics.by_name("clicks")
            assert topic is not None

            earlier = registry.forget_topics({"clicks": UUID(int=7)})
            own = registry.forget_topics({"clicks": topic.topic_id})

            assert earlier.records == []
            assert len(own.records) == 1

    asyncio.run(main())


def test_a_topic_that_is_not_there_is_refused_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_broker(tmp_path) as server:
            refused = await commit_in_a_transaction(server.broker, "nothing")
            assert refused is ErrorCode.unknown_topic_or_partition

    asyncio.run(main())
