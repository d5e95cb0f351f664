"""A broker inside the test's own process and event loop, to look into and to break."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.schema.schema_lookup import SchemaLookup
from headrace.broker.server import Server
from headrace.model.clock import Clock
from headrace.testing.quick_settings import QUICK_SETTINGS


@asynccontextmanager
async def local_broker(
    data: Path,
    settings: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    schema_lookup: SchemaLookup | None = None,
) -> AsyncIterator[Server]:
    """Yield a broker on loopback and a free port, and stop it cleanly at the end.

    Args:
        settings: added to `QUICK_SETTINGS`; yours override them.
        schema_lookup: what topics with schema validation ask.

    Example:
        async with local_broker(tmp_path) as server:
            await server.broker.controller.create_topics([NewTopic(name="clicks")])
    """
    texts = {
        **QUICK_SETTINGS,
        "log.dirs": str(data),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "headrace.admin.listener": "none",
        **(settings or {}),
    }
    server = await Server.start(BrokerSettings(texts), clock, schema_lookup=schema_lookup)
    try:
        yield server
    finally:
        await server.stop()
