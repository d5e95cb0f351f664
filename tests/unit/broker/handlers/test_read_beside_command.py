"""Requests that only read the cluster's state are answered while a command is under way."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.controller import Controller
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from testkit.process.wire_client import WireClient

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
TOPIC, ANY, CLUSTER = 2, 1, 4
READS: list[tuple[ApiKey, int, Mapping[str, Any]]] = [
    (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [
                {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": None}
            ],
            "include_synonyms": False,
            "include_documentation": False,
        },
    ),
    (ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": []}),
    (
        ApiKey.DESCRIBE_ACLS,
        2,
        {
            "resource_type_filter": ANY,
            "resource_name_filter": None,
            "pattern_type_filter": ANY,
            "principal_filter": None,
            "host_filter": None,
            "operation": ANY,
            "permission_type": ANY,
        },
    ),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False}),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None}),
]


@pytest.mark.parametrize(("api", "version", "body"), READS)
def test_a_read_does_not_wait_for_a_command(
    tmp_path: Path, api: ApiKey, version: int, body: Mapping[str, Any]
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path, AUTHORIZED) as server:
            running, go_on = threading.Event(), threading.Event()

            def slow(controller: Controller) -> None:
                running.set()
                go_on.wait(60)

            command = asyncio.create_task(server.broker.controller.administer(slow))
            try:
                await asyncio.to_thread(running.wait, 10)

                def ask() -> Any:
                    with WireClient(f"127.0.0.1:{server.listeners[0].port}") as client:
                        return client.ask(api, version, body)

                async with asyncio.timeout(60):
                    assert await asyncio.to_thread(ask) is not None
                assert not command.done()
            finally:
                go_on.set()
            await command

    asyncio.run(run())
