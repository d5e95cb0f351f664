"""A move may leave the number of replicas as it is, or change it (KIP-860)."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.broker.call import Call
from headrace.broker.handlers import alter_partition_reassignments
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId
from headrace.testing.local_broker import local_broker
from headrace.wire.error_code import ErrorCode
from headrace.wire.request import pack_request, parse_request

OTHER = BrokerRecord(broker_id=BrokerId(2), endpoints=())


def call(body: dict[str, Any], version: int) -> Call:
    frame = pack_request(alter_partition_reassignments.API, version, 1, "me", body)[4:]
    return Call(cast(Any, None), parse_request(frame))


@pytest.mark.parametrize(
    ("version", "allowed", "code"),
    [
        (1, {"allow_replication_factor_change": False}, ErrorCode.invalid_replication_factor),
        (1, {"allow_replication_factor_change": True}, ErrorCode.none),
        (0, {}, ErrorCode.none),
    ],
)
def test_the_replication_factor_changes_only_if_the_request_allows_it(
    tmp_path: Path, version: int, allowed: dict[str, bool], code: ErrorCode
) -> None:
    partition = {"partition_index": 0, "replicas": [1, 2]}
    topics = [{"name": "clicks", "partitions": [partition]}]
    request = call({"timeout": 1000, "topics": topics, **allowed}, version)

    async def main() -> None:
        async with local_broker(tmp_path) as server:
            controller = server.broker.controller
            await controller.create_topics([TopicToCreate(name="clicks")])
            await controller.administer(lambda controller: controller.register(OTHER))

            answer = await alter_partition_reassignments.handle(server.broker, request)

            assert answer["responses"][0]["partitions"][0]["error_code"] == code

    asyncio.run(main())
