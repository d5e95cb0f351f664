"""The URL of the schema registry may hold a password, which is not shown."""

import asyncio
from pathlib import Path

import pytest

from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from testkit.process.wire_client import WireClient

URL = "confluent.schema.registry.url"
BROKER = 4


def test_a_login_in_the_url_is_neither_described_nor_logged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        settings = {URL: "http://ann:s3cret@127.0.0.1:1"}
        async with local_broker(tmp_path, settings) as server:
            port = server.listeners[0].port
            broker_id = str(server.broker.node_id)

            def describe() -> None:
                resource = {
                    "resource_type": BROKER,
                    "resource_name": broker_id,
                    "configuration_keys": [URL],
                }
                body = {
                    "resources": [resource],
                    "include_synonyms": True,
                    "include_documentation": True,
                }
                with WireClient(f"127.0.0.1:{port}") as client:
                    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, body).results
                (entry,) = result.configs
                assert (entry.name, entry.value, entry.is_sensitive) == (URL, None, True)
                assert "s3cret" not in repr(result)

            await asyncio.to_thread(describe)

    asyncio.run(main())
    shown = capfd.readouterr()
    assert "s3cret" not in shown.out + shown.err
