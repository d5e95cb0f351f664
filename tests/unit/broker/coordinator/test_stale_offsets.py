"""Offsets of topics that may be gone, while the group coordinator waits for the cluster's store."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.broker import Broker
from headrace.broker.coordinator import group_coordinator
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.groups.effect import Producer
from headrace.groups.error import GroupError, Refusal
from headrace.groups.offset.message import CommitReply, CommitRequest, OffsetToCommit
from headrace.groups.registry import GroupRegistry
from headrace.model.coordinator import coordinator_partition
from headrace.model.error import DiskFull, StorageError
from headrace.model.ids import TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions, EndTransaction, InitProducerId

CLICKS, OLD = TopicPartition("clicks", 0), TopicPartition("old", 0)


class Store:
    """Stands between the broker and the cluster's store, which does not answer while it is cut."""

    def __init__(self, broker: Broker) -> None:
        self._read = broker.controller.read_topics
        self.cut = asyncio.Event()
        self.failures: list[Exception] = []
        self.readings = 0
        broker.controller.read_topics = self.read_topics  # type: ignore[method-assign]

    async def read_topics(self, names: Iterable[str]) -> dict[str, TopicRecord]:
        self.readings += 1
        if self.failures:
            raise self.failures.pop()
        await self.cut.wait()
        return await self._read(names)


Scenario = Callable[[Broker, Store], Awaitable[None]]


def run(data: Path, scenario: Scenario) -> None:
    """Run a scenario on a coordinator that has just begun, with an offset of a topic that it does
    not serve, and a store that it cannot read yet."""

    async def main() -> None:
        async with local_broker(data) as server:
            broker = server.broker
            await broker.controller.create_topics(
                [TopicToCreate(name="clicks"), TopicToCreate(name="old")]
            )
            assert (await commit(broker, OLD, 5)).error is None
            old = broker.topics.by_name("old")
            assert old is not None
            broker.topics.remove(old)
            begin_again(broker)
            await loaded(broker)
            await scenario(broker, Store(broker))

    asyncio.run(main())


def shard_of(broker: Broker) -> Any:
    shards = broker.groups._shards
    return shards[coordinator_partition("g", len(shards))]


def begin_again(broker: Broker) -> None:
    partition: Partition = shard_of(broker).partition
    broker.groups.unload(partition.name.partition)
    broker.groups.load([partition])


async def loaded(broker: Broker) -> None:
    await until(lambda: not shard_of(broker).loading)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def commit(
    broker: Broker, where: TopicPartition, offset: int, producer: Producer | None = None
) -> CommitReply:
    topic = broker.topics.by_name(where.topic)
    assert topic is not None
    offsets = {where: OffsetToCommit(offset=offset, topic_id=topic.topic_id)}
    return await broker.groups.handle(
        CommitRequest(group_id="g", offsets=offsets, producer=producer)
    )


async def committed(broker: Broker, where: TopicPartition) -> int:
    registry: GroupRegistry = await broker.groups.registry("g")
    return registry.fetch_offsets("g", [where])[where].offset


async def refused(broker: Broker, *partitions: TopicPartition) -> GroupError | None:
    """Return the error of a fetch; without partitions it asks for all that the group has."""
    registry: GroupRegistry = await broker.groups.registry("g")
    try:
        registry.fetch_offsets("g", partitions or None)
    except Refusal as refusal:
        return refusal.error
    return None


def test_no_offset_of_a_transaction_comes_after_its_marker(tmp_path: Path) -> None:
    """The offsets' partition was looked up in the transaction before the coordinator waited for
    the store. An abort wrote its marker meanwhile, and no other would come."""

    async def scenario(broker: Broker, store: Store) -> None:
        partition = shard_of(broker).partition
        began = await broker.transactions.init_producer_id(
            InitProducerId(transactional_id="t", timeout_ms=60_000)
        )
        ids = {"producer_id": began.producer_id, "producer_epoch": began.producer_epoch}
        adding = AddPartitions(
            transactional_id="t", partitions=frozenset([partition.name]), client_version=0, **ids
        )
        assert (await broker.transactions.add_partitions(adding)).error is TransactionError.NONE

        assert not await broker.transactions.joined(adding, implicit=False)
        producer = Producer(began.producer_id, began.producer_epoch)
        committing = asyncio.create_task(commit(broker, CLICKS, 9, producer))
        await asyncio.sleep(0)
        ended = await broker.transactions.end_transaction(
            EndTransaction(transactional_id="t", commit=False, **ids)
        )
        store.cut.set()

        assert ended.error is TransactionError.NONE
        assert (await committing).error is None
        log = partition.log
        assert not log.has_open_transaction(began.producer_id, began.producer_epoch)
        assert log.last_stable_offset == log.high_watermark
        assert await committed(broker, CLICKS) == -1

    run(tmp_path, scenario)


def test_only_offsets_in_doubt_wait_for_the_store(tmp_path: Path) -> None:
    """While ZooKeeper is cut every group of the shard stopped, and its members expired."""

    async def scenario(broker: Broker, store: Store) -> None:
        async with asyncio.timeout(60):
            assert (await commit(broker, CLICKS, 6)).error is None
            assert await committed(broker, CLICKS) == 6
            for asked in ((OLD,), (CLICKS, OLD), ()):
                assert await refused(broker, *asked) is GroupError.COORDINATOR_LOAD_IN_PROGRESS

        store.cut.set()
        await until(lambda: not shard_of(broker).registry.suspects)
        assert await committed(broker, OLD) == 5
        assert store.readings == 1

    run(tmp_path, scenario)


def test_a_topic_created_again_has_no_offset_of_its_predecessor(tmp_path: Path) -> None:
    async def scenario(broker: Broker, store: Store) -> None:
        await broker.controller.administer(lambda each: each.delete_topics(["old"]))
        await broker.controller.create_topics([TopicToCreate(name="old")])
        assert await refused(broker, OLD) is GroupError.COORDINATOR_LOAD_IN_PROGRESS

        # What is committed for the new topic counts at once, and stays.
        assert (await commit(broker, OLD, 3)).error is None
        assert await committed(broker, OLD) == 3
        store.cut.set()
        await until(lambda: not shard_of(broker).registry.suspects)
        assert await committed(broker, OLD) == 3

    run(tmp_path, scenario)


def test_a_topic_that_is_gone_loses_its_offsets_when_the_store_has_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the store could not be read at first, or the disk was full."""
    monkeypatch.setattr(group_coordinator, "_RELOAD_SECONDS", 0.01)

    async def scenario(broker: Broker, store: Store) -> None:
        await broker.controller.administer(lambda each: each.delete_topics(["old"]))
        store.failures = [StorageError("no ZooKeeper"), StorageError("no ZooKeeper")]
        full = [DiskFull("no room")]
        append = Partition.append

        def once_full(partition: Partition, *args: Any, **more: Any) -> Any:
            if full:
                raise full.pop()
            return append(partition, *args, **more)

        monkeypatch.setattr(Partition, "append", once_full)
        assert await refused(broker, OLD) is GroupError.COORDINATOR_LOAD_IN_PROGRESS
        store.cut.set()
        await until(lambda: not shard_of(broker).registry.suspects)

        assert (store.readings, full) == (4, [])
        assert await committed(broker, OLD) == -1
        assert await refused(broker) is None

    run(tmp_path, scenario)


def test_a_check_ends_with_its_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_coordinator, "_RELOAD_SECONDS", 0.01)

    async def scenario(broker: Broker, store: Store) -> None:
        await broker.controller.administer(lambda each: each.delete_topics(["old"]))
        assert await refused(broker, OLD) is GroupError.COORDINATOR_LOAD_IN_PROGRESS
        partition = shard_of(broker).partition
        end = partition.log.log_end_offset
        broker.groups.unload(partition.name.partition)

        store.cut.set()
        await until(lambda: not broker.groups._tasks)
        assert partition.log.log_end_offset == end

    run(tmp_path, scenario)
