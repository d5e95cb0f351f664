"""A broker whose id another process has taken: it neither leads nor follows."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.broker.server import Server
from headrace.client import Writer
from headrace.client.error import WriteFailed
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.error import BrokerIdTaken
from headrace.model.ids import TopicPartition
from testkit.simulation.small_cluster import SmallCluster, eventually, log_end

ORDERS = TopicPartition("orders", 0)


def write(port: int, count: int) -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "default.api.timeout.ms": "2000"}
    with Writer(settings, topic="orders", acks="all") as writer:
        writer.write(pa.table({"value": pa.array([b"x"] * count, pa.binary())}))
        writer.flush()


def isr(server: Server) -> set[int]:
    topic = server.broker.topics.by_name("orders")
    return set() if topic is None else set(topic.record.partitions[0].isr)


class Cut:
    """The way of broker 1 to the store, which is cut and mended."""

    def __init__(self, cluster: SmallCluster) -> None:
        self.member = cluster.servers[1].broker.membership
        self._cluster, self._store = cluster, cluster.stores[1]

    def begin(self) -> None:
        self._store.expired = True
        self._cluster.ensemble.expire(self._store)
        self.member._on_session(alive=False)  # type: ignore[attr-defined]

    def end(self) -> None:
        self._store.expired = False
        self.member._on_session(alive=True)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _it_tries_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.membership.cluster_member._TAKEN_RETRY_SECONDS", 0.1)


def test_it_acknowledges_nothing_and_goes_on_when_the_other_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            first = await cluster.start(1)
            port, cut = first.listeners[0].port, Cut(cluster)
            await first.broker.controller.create_topics(
                [TopicToCreate(name="orders", partitions=1, replication_factor=1)]
            )
            await asyncio.to_thread(write, port, 5)

            cut.begin()
            second = await cluster.start_beside(1, [tmp_path / "another"])
            assert log_end(second, ORDERS) == 0
            cut.end()
            await eventually(lambda: first.broker.roles.displaced)
            await eventually(lambda: first.broker.topics.find("orders", None, 0) is None)
            with pytest.raises(WriteFailed):
                await asyncio.to_thread(write, port, 7)
            assert log_end(first, ORDERS) == 5

            await second.stop()
            await eventually(lambda: cut.member.joined)  # type: ignore[attr-defined]
            await eventually(lambda: first.broker.topics.find("orders", None, 0) is not None)
            await asyncio.to_thread(write, port, 7)
            assert log_end(first, ORDERS) == 12

    asyncio.run(main())


def test_a_copy_of_its_data_does_not_lead_beside_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            await cluster.start(1)
            await cluster.servers[1].broker.controller.create_topics(
                [TopicToCreate(name="orders", partitions=1, replication_factor=1)]
            )
            await cluster.stop(1)
            shutil.copytree(cluster.disks(1)[0], tmp_path / "copy")
            first = await cluster.start(1)

            second = await cluster.start_beside(1, [tmp_path / "copy"])
            await eventually(lambda: first.broker.roles.displaced)
            await eventually(lambda: first.broker.topics.find("orders", None, 0) is None)
            with pytest.raises(WriteFailed):
                await asyncio.to_thread(write, first.listeners[0].port, 7)
            await asyncio.to_thread(write, second.listeners[0].port, 7)
            assert not second.broker.roles.displaced
            await second.stop()

    asyncio.run(main())


async def displaced_with_old_log(cluster: SmallCluster, disk: Path, cut: Cut) -> Server:
    """Let a second process take the id of broker 1, take more records than broker 1 has, and end
    as the last one in sync; return broker 2, which is behind."""
    first, other = cluster.servers[1], cluster.servers[2]
    cut.begin()
    await eventually(lambda: isr(other) == {2})
    second = await cluster.start_beside(1, [disk])
    await eventually(lambda: isr(other) == {1, 2})
    cut.end()
    await eventually(lambda: first.broker.roles.displaced)
    await asyncio.to_thread(write, other.listeners[0].port, 50)
    await eventually(lambda: log_end(second, ORDERS) == 150)
    await cluster.stop(2)
    await eventually(lambda: isr(second) == {1})
    await second.stop()
    await eventually(lambda: cut.member.joined)  # type: ignore[attr-defined]
    other = await cluster.start(2)
    await eventually(lambda: len(other.broker.members) == 2)
    return other


@pytest.mark.parametrize("is_copy", [False, True])
def test_with_an_old_log_it_does_not_lead_and_cuts_no_replica(
    tmp_path: Path, is_copy: bool
) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path, min_insync_replicas="1") as cluster:
            first = await cluster.start(1)
            disk = tmp_path / "another"
            if is_copy:
                await cluster.stop(1)
                shutil.copytree(cluster.disks(1)[0], disk)
                first = await cluster.start(1)
            other = await cluster.start(2)
            await eventually(lambda: len(first.broker.members) == 2)
            await first.broker.controller.create_topics(
                [TopicToCreate(name="orders", partitions=1, replication_factor=2)]
            )
            await eventually(lambda: isr(other) == {1, 2})
            await asyncio.to_thread(write, first.listeners[0].port, 100)
            await eventually(lambda: log_end(other, ORDERS) == 100)

            def is_safe() -> None:
                # What was acknowledged last is on the disk of the second process only.
                assert cluster.servers[1].broker.topics.find("orders", None, 0) is None
                assert cluster.servers[1].broker.storage.missing
                assert log_end(cluster.servers[1], ORDERS) is None
                assert [each.name for each in cluster.disks(1)[0].glob("orders-0.*-stray")]
                assert log_end(other, ORDERS) == 150

            cut = Cut(cluster)
            other = await displaced_with_old_log(cluster, disk, cut)
            is_safe()
            cut.begin()
            cut.end()
            await eventually(lambda: cut.member.joined)  # type: ignore[attr-defined]
            is_safe()
            # What it has made since is as good as any: it leads that, and alone.
            await other.broker.controller.create_topics(
                [TopicToCreate(name="new", partitions=1, replication_factor=2)]
            )
            await eventually(lambda: cluster.servers[1].broker.topics.by_name("new") is not None)
            await cluster.stop(1)
            await cluster.start(1)
            is_safe()
            await cluster.stop(2)
            await cluster.stop(1)
            await cluster.start(1)
            leads = cluster.servers[1].broker.topics
            await eventually(lambda: leads.find("new", None, 0) is not None)
            assert leads.find("orders", None, 0) is None

    asyncio.run(main())


def test_a_second_one_that_is_refused_takes_nothing_from_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.membership.cluster_member._JOIN_TRIES", 2)

    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            first, other = await cluster.start(1), await cluster.start(2)
            await eventually(lambda: len(first.broker.members) == 2)
            await first.broker.controller.create_topics(
                [TopicToCreate(name="orders", partitions=1, replication_factor=2)]
            )
            await eventually(lambda: isr(other) == {1, 2})
            topic = other.broker.topics.by_name("orders")
            assert topic is not None
            before = topic.record

            with pytest.raises(BrokerIdTaken):
                await cluster.start_beside(1, [tmp_path / "another"])

            assert topic.record == before

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
