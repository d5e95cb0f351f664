"""Ids that no record can hold: flexible requests can carry them, and they are refused unhashed."""

import asyncio
from pathlib import Path
from typing import Any, cast

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers.registry import load
from headrace.broker.network.connection import Connection
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions, InitProducerId
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.request import pack_request, parse_request

LONG = "x" * 2**15
CLICKS_0 = TopicPartition("clicks", 0)
PRODUCER = {"producer_id": 7, "producer_epoch": 0}
OFFSETS = [
    {
        "name": "clicks",
        "partitions": [
            {
                "partition_index": 0,
                "committed_offset": 7,
                "committed_leader_epoch": -1,
                "committed_metadata": None,
            }
        ],
    }
]
MEMBER = {"generation_id": 1, "member_id": "m", "group_instance_id": None}
REQUESTS: list[tuple[ApiKey, int, dict[str, Any]]] = [
    (ApiKey.HEARTBEAT, 4, {"group_id": LONG, **MEMBER}),
    (ApiKey.DELETE_GROUPS, 2, {"groups_names": [LONG]}),
    (ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [LONG]}),
    (ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": [LONG]}),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [LONG]}),
    (ApiKey.ADD_OFFSETS_TO_TXN, 4, {"transactional_id": "t", **PRODUCER, "group_id": LONG}),
    (ApiKey.ADD_OFFSETS_TO_TXN, 4, {"transactional_id": LONG, **PRODUCER, "group_id": "g"}),
    (
        ApiKey.TXN_OFFSET_COMMIT,
        5,
        {"transactional_id": "t", "group_id": LONG, **PRODUCER, **MEMBER, "topics": OFFSETS},
    ),
    (
        ApiKey.TXN_OFFSET_COMMIT,
        5,
        {"transactional_id": LONG, "group_id": "g", **PRODUCER, **MEMBER, "topics": OFFSETS},
    ),
]


async def ask(broker: Broker, api: ApiKey, version: int, body: dict[str, Any]) -> Any:
    frame = pack_request(api, version, 1, "me", body)[4:]
    answer: Any = load(api)(broker, Call(cast(Connection, None), parse_request(frame)))
    return await answer if asyncio.iscoroutine(answer) else answer


def codes(answer: Any) -> list[ErrorCode]:
    """Return every error code of an answer, however deep it lies."""
    if isinstance(answer, dict):
        own = [value for key, value in answer.items() if key == "error_code"]
        return own + [code for value in answer.values() for code in codes(value)]
    if isinstance(answer, list):
        return [code for each in answer for code in codes(each)]
    return []


def test_every_api_refuses_an_id_that_no_record_can_hold(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([TopicToCreate(name="clicks")])
            await broker.transactions.init_producer_id(
                InitProducerId(transactional_id="t", timeout_ms=60_000)
            )
            for api, version, body in REQUESTS:
                answer = await ask(broker, api, version, body)
                assert codes(answer) == [ErrorCode.invalid_request], (api, answer)
            event = AddPartitions(
                transactional_id=LONG,
                producer_id=ProducerId(7),
                producer_epoch=ProducerEpoch(0),
                partitions=frozenset((CLICKS_0,)),
            )
            produced = await broker.transactions.joined(event, implicit=True)
            assert produced == {CLICKS_0: TransactionError.INVALID_REQUEST}

    asyncio.run(main())
