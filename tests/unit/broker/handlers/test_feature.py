"""A feature that is switched off is off."""

import asyncio
from pathlib import Path
from typing import Any, cast

from headrace.broker.call import Call
from headrace.broker.handlers import (
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
)
from headrace.broker.server import Server
from headrace.cluster.feature import Feature
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.request import pack_request, parse_request

GROUP_APIS = {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE}


def advertised(server: Server) -> set[int]:
    return {each["api_key"] for each in api_versions.answer(server.broker)["api_keys"]}


async def set_group_version(server: Server, level: int) -> None:
    await server.broker.controller.administer(
        lambda controller: controller.finalize_feature(Feature("group.version", level))
    )


def call(api: ApiKey, body: dict[str, Any]) -> Call:
    frame = pack_request(api, 1, 1, "me", body)[4:]
    return Call(cast(Any, None), parse_request(frame))


def test_without_group_version_the_consumer_protocol_is_not_served(tmp_path: Path) -> None:
    heartbeat = call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": "g", "member_id": "m", "member_epoch": 1}
    )
    describe = call(ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g"]})

    async def main() -> None:
        async with local_broker(tmp_path) as server:
            assert advertised(server) >= GROUP_APIS

            await set_group_version(server, 0)

            assert not advertised(server) & GROUP_APIS
            refused = await consumer_group_heartbeat.handle(server.broker, heartbeat)
            assert refused["error_code"] == ErrorCode.unsupported_version
            described = await consumer_group_describe.handle(server.broker, describe)
            assert described["groups"][0]["error_code"] == ErrorCode.unsupported_version

            await set_group_version(server, 1)
            assert advertised(server) >= GROUP_APIS

    asyncio.run(main())
