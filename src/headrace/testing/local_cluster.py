"""Several brokers inside the test's own process and event loop, with a real ZooKeeper."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from headrace.broker.auth.zookeeper_settings import zookeeper_access
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.server import Server
from headrace.cluster.zookeeper.zookeeper_store import ZooKeeperStore
from headrace.testing.quick_settings import QUICK_SETTINGS

# Everything that is waited for in a cluster is short.
FOR_CLUSTER_TESTS: Mapping[str, str] = {
    **QUICK_SETTINGS,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.backoff.ms": "100",
    "zookeeper.session.timeout.ms": "2000",
    "headrace.admin.listener": "none",
}

# No broker is killed in a process that all brokers share: a session or a follower that seems late
# means only that the machine is slow.
_IN_ONE_PROCESS: Mapping[str, str] = {
    **FOR_CLUSTER_TESTS,
    "replica.lag.time.max.ms": "10000",
    "zookeeper.session.timeout.ms": "10000",
}


async def start_member(
    ensemble: str, data: Path, number: int, settings: Mapping[str, str] | None = None
) -> Server:
    """Start one broker of a cluster, on loopback and a free port, and return it."""
    texts = {
        **_IN_ONE_PROCESS,
        "node.id": str(number),
        "log.dirs": str(data / f"broker-{number}"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": ensemble,
        **(settings or {}),
    }
    made = BrokerSettings(texts)
    open_store = partial(
        ZooKeeperStore.open,
        ensemble,
        session_ms=int(made["zookeeper.session.timeout.ms"]),
        access=zookeeper_access(made),
    )
    return await Server.start(made, open_store=open_store)


@asynccontextmanager
async def local_cluster(
    ensemble: str, data: Path, *, brokers: int = 3, settings: Mapping[str, str] | None = None
) -> AsyncIterator[list[Server]]:
    """Yield brokers 1, 2, 3, ...; stop those that are still in the list at the end.

    Example:
        async with local_cluster(ensemble, tmp_path) as servers:
            await servers[0].broker.controller.create_topics([NewTopic(name="clicks")])
    """
    async with AsyncExitStack() as stack:
        servers: list[Server] = []

        async def stop_all() -> None:
            for server in servers:
                await server.stop()

        stack.push_async_callback(stop_all)
        for number in range(1, brokers + 1):
            started = await start_member(ensemble, data, number, settings)
            servers.append(started)
        yield servers
