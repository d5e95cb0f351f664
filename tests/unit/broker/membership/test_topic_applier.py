"""Topics of a running broker: no command waits for their logs, and no topic gets another's."""

import asyncio
import errno
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker.broker import Broker
from headrace.broker.replica.log_storage import Doomed, LogStorage
from headrace.broker.replica.replica_roles import ReplicaRoles
from headrace.cluster.controller import Controller
from headrace.cluster.local_store import LocalStore
from headrace.cluster.topic import PartitionRecord, TopicRecord
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.log.filesystem import Disk
from headrace.model.error import DiskFull, LogClosed
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.local_broker import local_broker
from testkit.sample.batch import sample_batch

CLICKS = TopicToCreate(name="clicks", partitions=2)


def write(broker: Broker, name: str) -> None:
    partition = broker.topics.find(name, None, 0)
    assert partition is not None
    partition.log.append(sample_batch(b"old"), 0)


def log_end(broker: Broker, name: str) -> int:
    partition = broker.topics.find(name, None, 0)
    assert partition is not None
    return partition.log.log_end_offset


async def delete(broker: Broker, name: str) -> None:
    await broker.controller.administer(lambda controller: controller.delete_topics([name]))


def record_of(broker: Broker, name: str) -> TopicRecord:
    topic = broker.topics.by_name(name)
    assert topic is not None
    return topic.record


OTHER = BrokerId(7)


def led_by_other(record: TopicRecord, *more: BrokerId, change: int) -> TopicRecord:
    """Return the topic with partition 0 led by another broker; `more` are its other replicas."""
    first, *rest = record.partitions
    moved = PartitionRecord(
        replicas=(OTHER, *more),
        isr=(OTHER,),
        leader=OTHER,
        leader_epoch=LeaderEpoch(first.leader_epoch + 1),
        partition_epoch=change,
    )
    return replace(record, partitions=(moved, *rest))


def test_a_topic_created_again_after_a_crash_in_the_deletion_is_empty(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            await server.broker.controller.create_topics([CLICKS])
            write(server.broker, "clicks")
        # The commits of both commands, without what the broker does with its logs afterwards.
        store = LocalStore.open(Disk(), tmp_path / "cluster")
        controller = Controller(store)
        controller.delete_topics(["clicks"])
        controller.register(server.broker.members[server.broker.node_id])
        controller.create_topics([CLICKS], defaults=TopicDefaults())
        store.close()

        async with local_broker(tmp_path) as server:
            assert log_end(server.broker, "clicks") == 0

    asyncio.run(run())


def test_a_broker_alone_keeps_the_logs_of_a_topic_that_its_store_lost(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            await server.broker.controller.create_topics([CLICKS, TopicToCreate(name="kept")])
            write(server.broker, "clicks")
        store = LocalStore.open(Disk(), tmp_path / "cluster")
        Controller(store).delete_topics(["clicks"])
        store.close()

        async with local_broker(tmp_path) as server:
            assert server.broker.topics.by_name("kept") is not None
        (stray,) = tmp_path.glob("clicks-0.*-stray")
        assert (stray / "00000000000000000000.log").stat().st_size > 0

    asyncio.run(run())


def test_no_command_waits_while_logs_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([CLICKS])
            write(broker, "clicks")
            go_on = threading.Event()
            real = broker.storage.delete
            monkeypatch.setattr(
                broker.storage, "delete", lambda logs: (go_on.wait(90), real(logs))[1]
            )
            try:
                async with asyncio.timeout(60):
                    await delete(broker, "clicks")
                    assert broker.topics.by_name("clicks") is None
                    await broker.controller.administer(lambda controller: None)
            finally:
                go_on.set()
            # The same name again: it waits for the old logs, and gets new ones.
            await broker.controller.create_topics([CLICKS])
            assert log_end(broker, "clicks") == 0
            assert len(list(tmp_path.glob("clicks-*-delete"))) == 2

    asyncio.run(run())


def test_what_changes_while_logs_are_made_takes_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            making, go_on = threading.Event(), threading.Event()
            real = broker.storage.make

            def make(record: TopicRecord) -> None:
                making.set()
                go_on.wait(90)
                real(record)

            monkeypatch.setattr(broker.storage, "make", make)
            creating = asyncio.create_task(broker.controller.create_topics([CLICKS]))
            await asyncio.to_thread(making.wait, 10)
            await delete(broker, "clicks")
            again = asyncio.create_task(
                broker.controller.create_topics([TopicToCreate(name="clicks", partitions=3)])
            )
            while not await broker.controller.administer(
                lambda each: "clicks" in each.state.topics
            ):
                pass
            rejection = await broker.controller.administer(
                lambda each: each.replace_topic_configs("clicks", {"retention.ms": "12345"})
            )
            assert rejection is None
            go_on.set()
            await asyncio.gather(creating, again)

            topic = broker.topics.by_name("clicks")
            assert topic is not None
            assert len(topic.partitions) == 3
            for partition in topic.partitions:
                assert partition is not None
                assert partition.log.config.retention_ms == 12345
            await broker.applier.topics.settle()
            for index in range(3):
                name = TopicPartition("clicks", index)
                assert broker.storage.log_of(name, topic.topic_id) is not None

    asyncio.run(run())


def test_logs_that_found_no_room_are_made_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: LogStorage, record: TopicRecord) -> None:
        raise DiskFull("there is no room on the disk")

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            with monkeypatch.context() as patch:
                patch.setattr(LogStorage, "make", full)
                await broker.controller.create_topics([CLICKS])
                await broker.applier.topics.settle()
            assert broker.topics.find("clicks", None, 0) is None

            broker.applier.topics.retry()
            await broker.applier.topics.settle()

            assert log_end(broker, "clicks") == 0

    asyncio.run(run())


def test_a_replica_that_moved_away_is_deleted_once_whatever_changes_next(tmp_path: Path) -> None:
    """A second rename of the same directory would take the whole log directory offline."""

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            away = led_by_other(record_of(broker, "clicks"), change=1)
            await topics.apply(away)
            await topics.apply(replace(away, configs={"retention.ms": "12345"}))
            await topics.settle()

            assert broker.storage.offline == []
            assert len(list(tmp_path.glob("clicks-0.*-delete"))) == 1

    asyncio.run(run())


def test_a_topic_deleted_while_it_gets_partitions_is_deleted_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            record = record_of(broker, "clicks")
            more = PartitionRecord.on((broker.node_id,))
            await topics.apply(replace(record, partitions=(*record.partitions, more)))
            await topics.remove([record])
            await topics.settle()

            assert broker.storage.offline == []
            assert not list(tmp_path.glob("clicks-?"))

    asyncio.run(run())


@pytest.mark.parametrize("under_way", [False, True], ids=["queued", "under_way"])
def test_a_replica_that_moves_away_and_back_copies_its_leader_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, under_way: bool
) -> None:
    """It must not go on at the end of the log that is deleted: it would count as in sync."""

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            write(broker, "clicks")
            record = record_of(broker, "clicks")
            deleting, go_on = threading.Event(), threading.Event()
            real = broker.storage.delete

            def delete(logs: Iterable[Doomed]) -> None:
                deleting.set()
                go_on.wait(90)
                real(logs)

            monkeypatch.setattr(broker.storage, "delete", delete)
            await topics.apply(led_by_other(record, change=1))
            if under_way:
                await asyncio.to_thread(deleting.wait, 10)
            await topics.apply(led_by_other(record, broker.node_id, change=2))
            assert broker.topics.follower("clicks", None, 0) is None
            go_on.set()
            await topics.settle()

            follower = broker.topics.follower("clicks", None, 0)
            assert follower is not None
            assert not follower.log.closed
            assert follower.log.log_end_offset == 0
            assert len(list(tmp_path.glob("clicks-0.*-delete"))) == 1

    asyncio.run(run())


def test_a_follower_whose_log_was_deleted_is_made_anew(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            record = record_of(broker, "clicks")
            followed = led_by_other(record, broker.node_id, change=1)
            await topics.apply(followed)
            old = broker.topics.follower("clicks", None, 0)
            assert old is not None
            broker.storage.delete([(old.name, record.topic_id)])
            with pytest.raises(LogClosed):
                old.append(b"", 0, 0)

            await topics.apply(led_by_other(record, broker.node_id, change=2))
            await topics.settle()

            new = broker.topics.follower("clicks", None, 0)
            assert new is not None and not new.log.closed

    asyncio.run(run())


def test_logs_that_could_not_be_renamed_are_deleted_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Disk.replace

    def full(self: Disk, source: Path, target: Path) -> None:
        if source.name == "clicks-1":
            raise OSError(errno.ENOSPC, "no room", str(source))
        real(self, source, target)

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            old = broker.topics.find("clicks", None, 1)
            assert old is not None
            old.log.append(sample_batch(b"old"), 0)
            with monkeypatch.context() as patch:
                patch.setattr(Disk, "replace", full)
                await delete(broker, "clicks")
                await broker.controller.create_topics([CLICKS])
                await topics.settle()
                assert broker.topics.find("clicks", None, 1) is None
            assert broker.storage.offline == []

            topics.retry()
            await topics.settle()

            new = broker.topics.find("clicks", None, 1)
            assert new is not None and new.log.log_end_offset == 0
            assert len(list(tmp_path.glob("clicks-*-delete"))) == 2
            assert not list(tmp_path.glob("*-stray"))

    asyncio.run(run())


def test_an_existing_partition_changes_its_leader_while_logs_of_others_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was replaced must take no records until the disk has time for other logs."""

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            record = record_of(broker, "clicks")
            more = PartitionRecord.on((broker.node_id,))
            wider = replace(record, partitions=(*record.partitions, more))
            making, go_on = threading.Event(), threading.Event()
            configured: list[str] = []
            monkeypatch.setattr(topics, "_reconfigure", configured.append)
            real = broker.storage.make

            def make(record: TopicRecord) -> None:
                making.set()
                go_on.wait(90)
                real(record)

            monkeypatch.setattr(broker.storage, "make", make)
            try:
                await topics.apply(wider)
                await asyncio.to_thread(making.wait, 10)
                moved = led_by_other(wider, broker.node_id, change=1)
                await topics.apply(replace(moved, configs={"retention.ms": "12345"}))

                assert broker.topics.find("clicks", None, 0) is None
                assert broker.topics.follower("clicks", None, 0) is not None
                assert configured == ["clicks"]
                assert broker.topics.find("clicks", None, 1) is not None
                assert broker.topics.find("clicks", None, 2) is None
            finally:
                go_on.set()
            await topics.settle()

            assert broker.topics.find("clicks", None, 2) is not None
            assert configured == ["clicks", "clicks"]  # the new log may have been made before

    asyncio.run(run())


def test_what_a_failing_partition_left_half_changed_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed Metadata and the fast paths keep what they found while the version is the same."""

    def fail(*_: object) -> None:
        raise DiskFull("there is no room on the disk")

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker, topics = server.broker, server.broker.applier.topics
            await broker.controller.create_topics([CLICKS])
            topic = broker.topics.by_name("clicks")
            assert topic is not None
            topic.packed[12] = b"old"
            version = broker.topics.version
            monkeypatch.setattr(ReplicaRoles, "_follow_leader", fail)
            await topics.apply(led_by_other(topic.record, broker.node_id, change=1))

            assert broker.topics.version > version
            assert not topic.packed

    asyncio.run(run())
