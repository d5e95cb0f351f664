"""A topic of many partitions changes in slices: others run in between, and see no half of one."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.broker import Broker
from headrace.broker.replica import replica_roles
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.replica_roles import ReplicaRoles
from headrace.cluster.state import Put
from headrace.cluster.topic import PartitionRecord, TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.wire.error_code import ErrorCode
from testkit.sample.batch import sample_batch

SLICE = 4
PARTITIONS = 5 * SLICE + 2
CLICKS = TopicToCreate(name="clicks", partitions=PARTITIONS)
OTHER = BrokerId(7)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_roles, "PARTITIONS_PER_SLICE", SLICE)


class TurnCount:
    """How often something is called in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.turns = [0]
        real = getattr(ReplicaRoles, name)

        def counted(*values: Any) -> Any:
            self.turns[-1] += 1
            return real(*values)

        monkeypatch.setattr(ReplicaRoles, name, counted)

    async def watch(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run the work to its end, with a turn of this task after each of its own."""
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.sleep(0)
            self.turns.append(0)
        await task


def record_of(broker: Broker) -> TopicRecord:
    topic = broker.topics.by_name("clicks")
    assert topic is not None
    return topic.record


def next_epoch(record: TopicRecord, leader: BrokerId | None = None) -> TopicRecord:
    """Return the topic in each partition's next epoch, led by the same broker or another."""
    partitions = tuple(
        replace(
            each,
            leader=each.leader if leader is None else leader,
            isr=each.isr if leader is None else (leader,),
            replicas=each.replicas if leader is None else (leader, *each.replicas),
            leader_epoch=LeaderEpoch(each.leader_epoch + 1),
            partition_epoch=each.partition_epoch + 1,
        )
        for each in record.partitions
    )
    return replace(record, partitions=partitions)


def code_of_produce(broker: Broker, index: int) -> ErrorCode:
    """Return what a client that writes to this partition gets."""
    if broker.topics.find("clicks", None, index) is not None:
        return ErrorCode.none
    return broker.topics.missing_code("clicks", None, index)


def test_no_turn_of_the_loop_changes_more_leaders_than_a_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([CLICKS])
            count = TurnCount(monkeypatch, "_lead")

            await count.watch(broker.applier.apply([Put(next_epoch(record_of(broker)))]))

            assert max(count.turns) == SLICE
            assert sum(count.turns) == PARTITIONS
            assert all(each is not None and each.leader_epoch == 1 for each in led(broker))

    asyncio.run(run())


def led(broker: Broker) -> list[Partition | None]:
    return [broker.topics.find("clicks", None, index) for index in range(PARTITIONS)]


@pytest.mark.parametrize("leader", [None, OTHER], ids=["leads_on", "follows"])
def test_a_request_between_two_slices_sees_each_partition_before_or_after(
    tmp_path: Path, leader: BrokerId | None
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([CLICKS])
            changed = next_epoch(record_of(broker), leader)
            changing = asyncio.create_task(broker.applier.apply([Put(changed)]))
            new_counts = set()
            while not changing.done():
                new = 0
                for index, record in enumerate(record_of(broker).partitions):
                    assert record.leader_epoch in (0, 1)
                    new += record.leader_epoch
                    hint = broker.topics.leader_hint("clicks", None, index)
                    follower = broker.topics.follower("clicks", None, index)
                    partition = broker.topics.find("clicks", None, index)
                    if record.leader == broker.node_id:
                        assert partition is not None and follower is None and hint is None
                        assert partition.leader_epoch == record.leader_epoch
                    else:
                        assert partition is None and follower is not None and hint is not None
                        assert code_of_produce(broker, index) is ErrorCode.not_leader_or_follower
                new_counts.add(new)
                await asyncio.sleep(0)
            await changing

            assert len(new_counts) > 3, "nothing ran in between"
            assert record_of(broker) == changed

    asyncio.run(run())


def test_a_new_topic_is_seen_when_all_its_partitions_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            count = TurnCount(monkeypatch, "_open")
            seen: set[int] = set()

            async def look() -> None:
                while PARTITIONS not in seen:
                    topic = broker.topics.by_name("clicks")
                    seen.add(0 if topic is None else sum(each is not None for each in led(broker)))
                    await asyncio.sleep(0)

            looking = asyncio.create_task(look())
            await count.watch(broker.controller.create_topics([CLICKS]))
            await looking

            assert seen == {0, PARTITIONS}
            assert max(count.turns) == SLICE
            assert sum(count.turns) == PARTITIONS

    asyncio.run(run())


def test_new_partitions_of_a_topic_are_seen_all_at_once(tmp_path: Path) -> None:
    """A producer that sees some of them sends keys to other partitions than one that sees all."""

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([CLICKS])
            record = record_of(broker)
            more = (PartitionRecord.on((broker.node_id,)),) * PARTITIONS
            wider = replace(record, partitions=(*record.partitions, *more))
            counts = {PARTITIONS}

            async def change() -> None:
                await broker.applier.topics.apply(wider)
                await broker.applier.topics.settle()

            changing = asyncio.create_task(change())
            while not changing.done():
                topic = broker.topics.by_name("clicks")
                assert topic is not None
                assert len(topic.partitions) == len(topic.record.partitions)
                counts.add(len(topic.partitions))
                await asyncio.sleep(0)
            await changing

            assert counts == {PARTITIONS, 2 * PARTITIONS}
            last = broker.topics.find("clicks", None, 2 * PARTITIONS - 1)
            assert last is not None

    asyncio.run(run())


def test_a_topic_deleted_while_it_changes_its_leaders_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Partition] = []
    real = ReplicaRoles._open

    def note(self: ReplicaRoles, *values: Any) -> Partition | None:
        partition = real(self, *values)
        if partition is not None:
            opened.append(partition)
        return partition

    async def run() -> None:
        monkeypatch.setattr(ReplicaRoles, "_open", note)
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            record = record_of(broker)
            changing = asyncio.create_task(topics.apply(next_epoch(record)))
            while len(opened) <= PARTITIONS:
                await asyncio.sleep(0)
            assert not changing.done()

            await topics.remove([record])
            await changing
            await topics.settle()

            assert broker.topics.by_name("clicks") is None
            assert all(each.resigned for each in opened)
            assert broker.storage.offline == []
            assert not list(tmp_path.glob("clicks-?"))

    asyncio.run(run())


def test_a_topic_that_comes_back_while_it_is_removed_gets_new_logs(tmp_path: Path) -> None:
    """The removal dooms the old ones when it has left all partitions; nothing may lead them."""

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            record = record_of(broker)
            removing = asyncio.create_task(topics.remove([record]))
            while broker.topics.by_name("clicks") is not None:
                await asyncio.sleep(0)
            assert not removing.done()

            await topics.apply(record)
            await removing
            await topics.settle()

            assert all(each is not None and not each.log.closed for each in led(broker))
            assert len(list(tmp_path.glob("clicks-*-delete"))) == PARTITIONS

    asyncio.run(run())


def test_the_last_of_two_changes_at_once_counts(tmp_path: Path) -> None:
    """A round that has made logs may serve a topic while the next command changes it."""

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            second = next_epoch(record_of(broker))
            third = next_epoch(second, OTHER)

            await asyncio.gather(topics.apply(second), topics.apply(third))

            assert record_of(broker) == third
            for index in range(PARTITIONS):
                assert broker.topics.find("clicks", None, index) is None
                follower = broker.topics.follower("clicks", None, index)
                assert follower is not None and follower.leader_epoch == 2

    asyncio.run(run())


def test_a_write_that_waits_for_replicas_ends_when_its_partition_changes(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([CLICKS])
            last = broker.topics.find("clicks", None, PARTITIONS - 1)
            assert last is not None
            appended = last.append(sample_batch(b"kept"))
            waiting = last.when_committed(appended.last_offset + 2)

            await broker.applier.apply([Put(next_epoch(record_of(broker), OTHER))])

            assert waiting.done() and waiting.exception() is not None
            follower = broker.topics.follower("clicks", None, PARTITIONS - 1)
            assert follower is not None and follower.next_offset == 1

    asyncio.run(run())


def test_no_turn_of_the_loop_leaves_more_partitions_of_deleted_topics_than_a_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([CLICKS])
            topic_id = record_of(broker).topic_id
            count = TurnCount(monkeypatch, "_stop_leading")

            await count.watch(
                broker.controller.administer(
                    lambda controller: controller.delete_topics(["clicks"])
                )
            )

            assert max(count.turns) == SLICE
            assert sum(count.turns) == PARTITIONS
            assert not broker.storage.holds(TopicPartition("clicks", 0), topic_id)

    asyncio.run(run())


def test_a_setting_of_the_broker_that_changes_meanwhile_reaches_every_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted: dict[int, int] = {}
    apply_config = Partition.apply_config

    def adopt(partition: Partition) -> None:
        apply_config(partition)
        adopted[partition.name.partition] = partition.log.config.min_insync_replicas

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            real = ReplicaRoles._open_new

            async def open_new(roles: ReplicaRoles, *values: Any) -> None:
                await real(roles, *values)
                broker.settings.set_dynamic({"min.insync.replicas": "2"})
                for directory in broker.storage.directories:
                    directory.configure()

            monkeypatch.setattr(ReplicaRoles, "_open_new", open_new)
            monkeypatch.setattr(Partition, "apply_config", adopt)
            await broker.controller.create_topics([CLICKS])

    asyncio.run(run())

    assert adopted == dict.fromkeys(range(PARTITIONS), 2)
