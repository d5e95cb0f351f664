"""What a broker reads when it registers."""

import asyncio
from pathlib import Path

import pytest

from headrace.cluster.controller import Controller
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from testkit.simulation.memory_store import MemoryStore
from testkit.simulation.small_cluster import SmallCluster, eventually


def test_a_change_after_everything_was_read_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            server = await cluster.start(1)
            member = server.broker.membership
            task = member._catching_up  # type: ignore[attr-defined]
            await eventually(lambda: task is None or task.done())
            member.joined = False  # type: ignore[attr-defined]
            monkeypatch.setattr(Controller, "reload", lambda _: None)

            other = Controller(MemoryStore(cluster.ensemble))
            new = TopicToCreate(name="orders", partitions=1, replication_factor=1)
            other.create_topics([new], defaults=TopicDefaults(partitions=1, replication_factor=1))
            await eventually(lambda: bool(member._changed_paths))  # type: ignore[attr-defined]
            await member._register()  # type: ignore[attr-defined]

            await eventually(lambda: server.broker.topics.by_name("orders") is not None)

    asyncio.run(main())
