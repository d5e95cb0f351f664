"""A broker whose id another process has taken: it neither leads nor follows."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client import Writer
from headrace.client.error import WriteFailed
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import TopicPartition
from testkit.simulation.small_cluster import SmallCluster, eventually, log_end

ORDERS = TopicPartition("orders", 0)


def write(port: int, count: int) -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "default.api.timeout.ms": "2000"}
    with Writer(settings, topic="orders", acks="all") as writer:
        writer.write(pa.table({"value": pa.array([b"x"] * count, pa.binary())}))
        writer.flush()


def test_it_acknowledges_nothing_and_goes_on_when_the_other_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.membership.cluster_member._TAKEN_RETRY_SECONDS", 0.1)

    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            first = await cluster.start(1)
            store, member = cluster.stores[1], first.broker.membership
            port = first.listeners[0].port
            await first.broker.controller.create_topics(
                [TopicToCreate(name="orders", partitions=1, replication_factor=1)]
            )
            await asyncio.to_thread(write, port, 5)

            # It is cut off from the store, and another machine gets its id.
            listeners = list(cluster.ensemble.listeners)
            cluster.ensemble.listeners.clear()
            store.expired = True
            cluster.ensemble.expire(store)
            member._on_session(alive=False)  # type: ignore[attr-defined]
            second = await cluster.start_beside(1, [tmp_path / "another"])
            assert log_end(second, ORDERS) == 0

            cluster.ensemble.listeners += listeners
            store.expired = False
            member._on_session(alive=True)  # type: ignore[attr-defined]
            await eventually(lambda: first.broker.roles.displaced)
            await eventually(lambda: first.broker.topics.find("orders", None, 0) is None)
            with pytest.raises(WriteFailed):
                await asyncio.to_thread(write, port, 7)
            assert log_end(first, ORDERS) == 5

            await second.stop()
            await eventually(lambda: member.joined)  # type: ignore[attr-defined]
            await eventually(lambda: first.broker.topics.find("orders", None, 0) is not None)
            await asyncio.to_thread(write, port, 7)
            assert log_end(first, ORDERS) == 12

    asyncio.run(main())


def test_it_begins_to_lead_nothing_before_it_is_registered(tmp_path: Path) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            server = await cluster.start(1)
            await server.broker.controller.create_topics(
                [TopicToCreate(name="orders", partitions=1, replication_factor=1)]
            )
            roles, topics = server.broker.roles, server.broker.topics
            topic = topics.by_name("orders")
            assert topic is not None
            [partition] = topic.record.partitions
            next_epoch = replace(partition, leader_epoch=partition.leader_epoch + 1)
            roles.registered = False

            await server.broker.applier.topics.apply(
                replace(topic.record, partitions=(next_epoch,))
            )
            assert topics.find("orders", None, 0) is None

            roles.registered = True
            server.broker.applier.topics.registered()
            await eventually(lambda: topics.find("orders", None, 0) is not None)

    asyncio.run(main())
