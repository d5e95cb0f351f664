"""Commits of more offsets than a coordinator writes at once, with a real broker."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from headrace.client import Writer
from headrace.client.group.group_admin import CommittedOffset, GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.transaction_calls import OffsetAndMetadata
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import TopicPartition
from headrace.testing.local_broker import local_broker

# Together more than the 1 MB of __consumer_offsets.
TEXT = "x" * 30_000
PARTITIONS = [TopicPartition("clicks", index) for index in range(50)]
COMMITTED = {each: CommittedOffset(each.partition + 7, TEXT) for each in PARTITIONS}


def run(data: Path, scenario: Callable[[ClientSettings], None]) -> None:
    async def main() -> None:
        async with local_broker(data, {"offset.metadata.max.bytes": "32000"}) as server:
            await server.broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=len(PARTITIONS))]
            )
            address = f"127.0.0.1:{server.listeners[0].port}"
            await asyncio.to_thread(scenario, ClientSettings.of({"bootstrap.servers": address}))

    asyncio.run(main())


def test_a_commit_of_any_size_is_taken(tmp_path: Path) -> None:
    def scenario(settings: ClientSettings) -> None:
        with ConnectionPool(settings) as pool:
            outcomes = GroupAdmin(pool).commit(
                "g",
                {each: committed.offset for each, committed in COMMITTED.items()},
                metadata=dict.fromkeys(PARTITIONS, TEXT),
            )

            assert outcomes == dict.fromkeys(PARTITIONS)
            assert GroupAdmin(pool).committed("g") == COMMITTED

    run(tmp_path, scenario)


def test_a_transaction_commits_any_number_of_offsets_or_none(tmp_path: Path) -> None:
    offsets = {each: OffsetAndMetadata(*_pair(each)) for each in PARTITIONS}

    def scenario(settings: ClientSettings) -> None:
        with Writer(settings, transactional_id="t") as writer, ConnectionPool(settings) as pool:
            writer.begin()
            writer.send_offsets("g", offsets)
            writer.abort()
            aborted = GroupAdmin(pool).committed("g")
            writer.begin()
            writer.send_offsets("g", offsets)
            before = GroupAdmin(pool).committed("g")
            writer.commit()

            assert (aborted, before) == ({}, {})
            assert GroupAdmin(pool).committed("g") == COMMITTED

    run(tmp_path, scenario)


def _pair(partition: TopicPartition) -> tuple[int, str]:
    committed = COMMITTED[partition]
    return committed.offset, committed.metadata
