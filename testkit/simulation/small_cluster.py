"""Brokers of one process whose cluster's store is in memory."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.server import Server
from headrace.model.ids import TopicPartition
from headrace.testing.local_cluster import FOR_CLUSTER_TESTS
from testkit.simulation.memory_store import Ensemble, MemoryStore


class SmallCluster:
    """Starts brokers, each with its own store of a shared ensemble, and stops what still runs.

    Attributes:
        servers: those that run, by node id.
        stores: their stores, by node id; the newest of each.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.ensemble = Ensemble()
        self.servers: dict[int, Server] = {}
        self.stores: dict[int, MemoryStore] = {}
        self._folder = folder
        self._settings = settings

    def disks(self, node_id: int, count: int = 1) -> list[Path]:
        return [self._folder / f"broker-{node_id}" / f"disk-{each}" for each in range(count)]

    async def start(self, node_id: int, disks: list[Path] | None = None) -> Server:
        server = self.servers[node_id] = await self.start_beside(node_id, disks)
        return server

    async def start_beside(self, node_id: int, disks: list[Path] | None = None) -> Server:
        """Start a broker that the caller stops, whether or not one of this id runs."""
        texts = {
            **FOR_CLUSTER_TESTS,
            "node.id": str(node_id),
            "log.dirs": ",".join(map(str, disks or self.disks(node_id))),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "zookeeper.connect": "in-memory:1",
            **{name.replace("_", "."): text for name, text in self._settings.items()},
        }
        store = self.stores[node_id] = MemoryStore(self.ensemble)
        return await Server.start(BrokerSettings(texts), open_store=lambda: store)

    async def stop(self, node_id: int) -> None:
        await self.servers.pop(node_id).stop()

    async def __aenter__(self) -> "SmallCluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self.servers.values():
            await server.stop()


def log_end(server: Server, name: TopicPartition) -> int | None:
    """Return where a broker's log of a partition ends; None while it has none."""
    topic = server.broker.topics.by_name(name.topic)
    stored = None if topic is None else server.broker.storage.log_of(name, topic.topic_id)
    return None if stored is None else int(stored.log_end_offset)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
