"""A broker that starts without one of its log directories."""

import asyncio
from pathlib import Path

import pyarrow as pa

from headrace.client import Writer
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId, TopicPartition
from testkit.simulation.small_cluster import SmallCluster, eventually, log_end

PARTITIONS = [TopicPartition("orders", each) for each in range(4)]


def write(port: int, count: int) -> None:
    with Writer({"bootstrap.servers": f"127.0.0.1:{port}"}, topic="orders", acks="all") as writer:
        keys = pa.array([b"k%d" % each for each in range(count)], pa.binary())
        writer.write(pa.table({"key": keys, "value": keys}))
        writer.flush()


def ends(cluster: SmallCluster, node_id: int) -> list[int | None]:
    return [log_end(cluster.servers[node_id], each) for each in PARTITIONS]


async def filled(cluster: SmallCluster) -> list[int | None]:
    """Start two brokers, the first with two disks, fill a topic and stop both, the first last."""
    await cluster.start(1, cluster.disks(1, 2))
    await cluster.start(2)
    written = await fill(cluster)
    await cluster.stop(2)
    await cluster.stop(1)
    return written


async def fill(cluster: SmallCluster) -> list[int | None]:
    broker = cluster.servers[1].broker
    await eventually(lambda: len(broker.members) == 2)
    await broker.controller.create_topics(
        [TopicToCreate(name="orders", partitions=4, replication_factor=2)]
    )
    await eventually(lambda: len(cluster.servers[2].broker.topics) >= 1)
    await asyncio.to_thread(write, cluster.servers[1].listeners[0].port, 400)
    await eventually(lambda: ends(cluster, 1) == ends(cluster, 2))
    written = ends(cluster, 1)
    assert all(written)
    return written


def isrs(cluster: SmallCluster) -> list[tuple[BrokerId, ...]]:
    topic = cluster.servers[2].broker.topics.by_name("orders")
    assert topic is not None
    return [partition.isr for partition in topic.record.partitions]


def test_the_last_broker_in_sync_empties_no_other_and_goes_on_with_its_disk(tmp_path: Path) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            written = await filled(cluster)
            first, second = cluster.disks(1, 2)
            second.rename(second.with_name("unmounted"))

            for _ in range(2):  # the next start must not take the new directory for the old one
                await cluster.start(1, [first, second])
                await cluster.start(2)
                broker = cluster.servers[1].broker
                await eventually(
                    lambda: cluster.servers[2].broker.topics.by_name("orders") is not None
                )
                lacking = [at for at, end in enumerate(ends(cluster, 1)) if end is None]
                assert len(lacking) == 2
                present = [at for at in range(4) if at not in lacking]
                await eventually(
                    lambda at=present: all(len(isrs(cluster)[each]) == 2 for each in at)
                )
                assert [isrs(cluster)[each] for each in lacking] == [(1,)] * 2
                assert ends(cluster, 2) == written
                assert any("missing" in each for each in broker.storage.problems())
                await cluster.stop(2)
                await cluster.stop(1)

            second.rename(second.with_name("empty"))
            second.with_name("unmounted").rename(second)
            await cluster.start(1, [first, second])
            assert ends(cluster, 1) == written
            await cluster.start(2)
            await eventually(lambda: all(len(each) == 2 for each in isrs(cluster)))
            assert ends(cluster, 2) == written
            assert cluster.servers[1].broker.storage.problems() == []

    asyncio.run(main())


def test_a_lost_disk_is_given_up_by_an_unclean_election(tmp_path: Path) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            written = await filled(cluster)
            first, second = cluster.disks(1, 2)
            second.rename(second.with_name("lost"))
            await cluster.start(2)
            await cluster.servers[2].broker.controller.administer(
                lambda controller: controller.elect_leaders(PARTITIONS, unclean=True)
            )

            await cluster.start(1, [first, second])

            await eventually(lambda: ends(cluster, 1) == written)
            await eventually(lambda: all(len(each) == 2 for each in isrs(cluster)))
            assert ends(cluster, 2) == written

    asyncio.run(main())


def test_a_replica_in_sync_elsewhere_leads_instead(tmp_path: Path) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            written = await filled(cluster)
            first, second = cluster.disks(1, 2)
            await cluster.start(1, [first, second])
            await cluster.start(2)
            await eventually(lambda: all(len(each) == 2 for each in isrs(cluster)))
            await cluster.stop(1)
            second.rename(second.with_name("lost"))

            await cluster.start(1, [first, second])

            await eventually(lambda: ends(cluster, 1) == written)
            assert ends(cluster, 2) == written

    asyncio.run(main())


def test_others_that_were_in_sync_lead_when_they_are_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path, controlled_shutdown_enable="false") as cluster:
            await cluster.start(1, cluster.disks(1, 2))
            await cluster.start(2)
            written = await fill(cluster)
            # All lose power at once: the store has both of them in sync.
            cluster.ensemble.listeners.clear()
            await cluster.stop(2)
            await cluster.stop(1)
            first, second = cluster.disks(1, 2)
            second.rename(second.with_name("lost"))

            await cluster.start(1, [first, second])
            await cluster.start(2)

            await eventually(lambda: ends(cluster, 1) == written)
            await eventually(lambda: all(len(each) == 2 for each in isrs(cluster)))
            assert ends(cluster, 2) == written
            assert cluster.servers[1].broker.storage.problems() == []

    asyncio.run(main())


def test_a_new_disk_beside_the_others_misses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with SmallCluster(tmp_path) as cluster:
            written = await filled(cluster)

            await cluster.start(1, cluster.disks(1, 3))

            assert ends(cluster, 1) == written
            assert not cluster.servers[1].broker.storage.missing

    asyncio.run(main())
