"""The transaction coordinator in a real broker, in this process: what it does when things break."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.broker import Broker
from headrace.broker.config.internal_topic import TRANSACTION_STATE
from headrace.broker.coordinator import transaction_shard
from headrace.broker.coordinator.marker_writer import Marker, WrittenMarker
from headrace.broker.coordinator.transaction_coordinator import TransactionRefusal
from headrace.broker.replica.partition import Partition
from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.rejection import ClusterError
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.config_code import ConfigOperation
from headrace.model.error import DiskFull, LogDirectoryOffline, StorageError
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.transactions.error import TransactionError
from headrace.transactions.listing import ListingFilter, TransactionDescription
from headrace.transactions.message import (
    AddPartitions,
    EndReply,
    EndTransaction,
    InitProducerId,
    InitReply,
)
from testkit.sample.batch import sample_batch

CLICKS = [TopicPartition("clicks", index) for index in range(5)]
GROUP_COMMIT = {"log.flush.interval.messages": "1"}
NONE = TransactionError.NONE

Scenario = Callable[[Broker], Awaitable[None]]


def run(data: Path, scenario: Scenario, **more: Any) -> None:
    """Run a scenario on a broker that has the topic clicks, with five partitions."""

    async def main() -> None:
        async with local_broker(data, **more) as server:
            if server.broker.topics.by_name("clicks") is None:
                await server.broker.controller.create_topics(
                    [TopicToCreate(name="clicks", partitions=5)]
                )
            await scenario(server.broker)

    asyncio.run(main())


async def init(broker: Broker, timeout_ms: int = 60_000) -> InitReply:
    event = InitProducerId(transactional_id="t", timeout_ms=timeout_ms)
    return await broker.transactions.init_producer_id(event)


def adding(producer: InitReply, *partitions: TopicPartition, version: int = 0) -> AddPartitions:
    return AddPartitions(
        transactional_id="t",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        partitions=frozenset(partitions or CLICKS[:2]),
        client_version=version,
    )


async def end(
    broker: Broker, producer: InitReply, *, commit: bool = True, version: int = 0
) -> EndReply:
    return await broker.transactions.end_transaction(
        EndTransaction(
            transactional_id="t",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            commit=commit,
            client_version=version,
        )
    )


async def began(
    broker: Broker, *partitions: TopicPartition, timeout_ms: int = 60_000, version: int = 0
) -> InitReply:
    """A transaction with a record in each of the partitions."""
    producer = await init(broker, timeout_ms)
    assert producer.error is NONE
    event = adding(producer, *partitions, version=version)
    assert (await broker.transactions.add_partitions(event)).error is NONE
    for name in event.partitions:
        partition = log_of(broker, name)
        batch = sample_batch(
            b"v",
            timestamp_ms=broker.clock.wall_ms(),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            sequence=0,
            transactional=True,
        )
        partition.append(batch)
    return producer


def log_of(broker: Broker, name: TopicPartition) -> Partition:
    partition = broker.topics.find(name.topic, None, name.partition)
    assert partition is not None
    return partition


def state_of(broker: Broker) -> str:
    found = broker.transactions.describe("t")
    assert isinstance(found, TransactionDescription), found
    return found.state


def is_stable(broker: Broker, name: TopicPartition) -> bool:
    log = log_of(broker, name).log
    return log.last_stable_offset == log.high_watermark


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def loaded(broker: Broker) -> None:
    loading = TransactionError.COORDINATOR_LOAD_IN_PROGRESS
    await until(lambda: broker.transactions.describe("t") is not loading)


async def turns(count: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


class HeldDisk:
    """The broker's group commit, except that the test says when something is on disk."""

    def __init__(self, broker: Broker) -> None:
        self.waiting: list[tuple[str, asyncio.Future[object]]] = []
        self._loop = broker.loop
        broker.when_synced = self._wait  # type: ignore[method-assign]

    def _wait(self, partition: Partition, _: int) -> "asyncio.Future[object]":
        future: asyncio.Future[object] = self._loop.create_future()
        self.waiting.append((partition.name.topic, future))
        return future

    async def sync(self) -> list[str]:
        """Everything that waits is on disk now; the topics of it."""
        synced, self.waiting = self.waiting, []
        for _, future in synced:
            future.set_result(None)
        await turns()
        return [topic for topic, _ in synced]

    async def fail(self) -> None:
        failed, self.waiting = self.waiting, []
        for _, future in failed:
            future.set_exception(StorageError("fsync failed"))
        await turns()


# -- one life of an id


def test_the_first_transactional_id_makes_the_topic(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        assert broker.transactions.registries() == []
        assert broker.transactions.describe("t") is TransactionError.TRANSACTIONAL_ID_NOT_FOUND

        assert (await init(broker)).producer_epoch == 0

        topic = broker.topics.by_name(TRANSACTION_STATE)
        assert topic is not None
        assert len(topic.partitions) == 4
        assert state_of(broker) == "Empty"

    run(tmp_path, scenario)


def test_a_commit_ends_the_transaction_in_every_partition(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        assert not is_stable(broker, CLICKS[0])

        assert (await end(broker, producer)).error is NONE

        assert state_of(broker) == "CompleteCommit"
        assert is_stable(broker, CLICKS[0])
        assert is_stable(broker, CLICKS[1])

    run(tmp_path, scenario)


def test_a_second_producer_takes_over_without_being_sent_away(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        first = await began(broker)

        second = await init(broker)

        assert second.error is NONE
        assert second.producer_id == first.producer_id
        assert second.producer_epoch == first.producer_epoch + 2
        assert is_stable(broker, CLICKS[0])
        assert (await end(broker, first)).error is TransactionError.PRODUCER_FENCED

    run(tmp_path, scenario)


def test_a_transaction_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker, timeout_ms=20)

        await until(lambda: state_of(broker) == "CompleteAbort")

        assert is_stable(broker, CLICKS[0])
        assert (await end(broker, producer)).error is TransactionError.PRODUCER_FENCED

    run(tmp_path, scenario)


def test_listings_have_every_shard(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        for number in range(8):
            await broker.transactions.init_producer_id(
                InitProducerId(transactional_id=f"t{number}", timeout_ms=1000)
            )
        found = [
            listing.transactional_id
            for registry in broker.transactions.registries()
            for listing in registry.list_transactions(ListingFilter(), 0)
        ]
        assert sorted(found) == [f"t{number}" for number in range(8)]

    run(tmp_path, scenario)


# -- joining


def test_records_join_by_themselves_only_with_the_new_protocol(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await init(broker)
        wanted = adding(producer, CLICKS[0], version=2)

        assert broker.transactions.join(wanted, implicit=False) == {
            CLICKS[0]: TransactionError.TRANSACTION_ABORTABLE
        }
        assert broker.transactions.join(wanted, implicit=True) == {}
        assert broker.transactions.join(wanted, implicit=False) == {}

    run(tmp_path, scenario)


def test_only_the_partitions_that_are_missing_are_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker, CLICKS[0])

        refused = broker.transactions.join(adding(producer, *CLICKS[:2]), implicit=False)

        assert refused == {CLICKS[1]: TransactionError.TRANSACTION_ABORTABLE}

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [
        (1, 0, TransactionError.INVALID_PRODUCER_ID_MAPPING),
        (0, 7, TransactionError.PRODUCER_FENCED),
    ],
)
def test_a_stranger_does_not_join(
    tmp_path: Path, producer_id: int, epoch: int, error: TransactionError
) -> None:
    async def scenario(broker: Broker) -> None:
        known = await init(broker)
        stranger = InitReply(
            producer_id=ProducerId(known.producer_id + producer_id),
            producer_epoch=ProducerEpoch(epoch),
        )
        assert broker.transactions.join(adding(stranger, CLICKS[0]), implicit=True) == {
            CLICKS[0]: error
        }

    run(tmp_path, scenario)


def test_no_producer_joins_before_there_is_a_transactional_id(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        unknown = InitReply(producer_id=ProducerId(0), producer_epoch=ProducerEpoch(0))
        assert broker.transactions.join(adding(unknown, CLICKS[0]), implicit=True) == {
            CLICKS[0]: TransactionError.INVALID_PRODUCER_ID_MAPPING
        }

    run(tmp_path, scenario)


# -- markers


def test_an_offline_partition_gets_its_marker_when_it_is_back(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        offline, topic.partitions[1] = topic.partitions[1], None

        assert (await end(broker, producer)).error is NONE
        described = broker.transactions.describe("t")
        assert isinstance(described, TransactionDescription)
        assert (described.state, described.partitions) == ("PrepareCommit", {CLICKS[1]})
        assert (await init(broker)).error is TransactionError.CONCURRENT_TRANSACTIONS

        topic.partitions[1] = offline
        await until(lambda: state_of(broker) == "CompleteCommit")
        assert is_stable(broker, CLICKS[1])

    run(tmp_path, scenario)


def test_a_deleted_partition_needs_no_marker(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        await broker.controller.administer(lambda controller: controller.delete_topics(["clicks"]))

        assert (await end(broker, producer)).error is NONE
        await until(lambda: state_of(broker) == "CompleteCommit")

    run(tmp_path, scenario)


def test_a_partition_that_is_not_served_yet_gets_its_marker(tmp_path: Path) -> None:
    """A coordinator that starts, or has not read of a topic's creation, does not know the topic."""

    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        broker.topics.remove(topic)

        readings, tries = count_readings(broker), count_tries(broker)

        assert (await end(broker, producer)).error is NONE
        await until(lambda: len(tries) >= 6)
        # It has read of the topic: no command waits for a look into the store.
        assert not readings
        described = broker.transactions.describe("t")
        assert isinstance(described, TransactionDescription)
        assert (described.state, described.partitions) == ("PrepareCommit", set(CLICKS[:2]))

        broker.topics.add(topic)
        await until(lambda: state_of(broker) == "CompleteCommit")
        assert all(is_stable(broker, name) for name in CLICKS[:2])

    run(tmp_path, scenario)


def test_a_partition_that_the_broker_has_not_read_of_gets_its_marker(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        broker.topics.remove(topic)
        record = broker.controller._controller.state.topics.pop("clicks")

        async def read(names: Iterable[str]) -> dict[str, TopicRecord]:
            return {"clicks": record}

        broker.controller.read_topics = read  # type: ignore[method-assign]
        readings, tries = count_readings(broker), count_tries(broker)

        assert (await end(broker, producer)).error is NONE
        await until(lambda: len(tries) >= 4)
        assert readings
        assert state_of(broker) == "PrepareCommit"

        broker.topics.add(topic)
        await until(lambda: state_of(broker) == "CompleteCommit")

    run(tmp_path, scenario)


def test_a_store_that_cannot_be_read_is_not_asked_at_every_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_shard, "_STORE_BACKOFF_MS", 600_000)

    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        await broker.controller.administer(lambda controller: controller.delete_topics(["clicks"]))
        readings, tries = count_readings(broker, StorageError("no ZooKeeper")), count_tries(broker)

        assert (await end(broker, producer)).error is NONE
        await until(lambda: len(tries) >= 6)
        assert len(readings) == 1
        assert state_of(broker) == "PrepareCommit"

        for shard in broker.transactions._shards.values():
            shard._read_after_ms = 0
        await until(lambda: state_of(broker) == "CompleteCommit")

    run(tmp_path, scenario)


def count_readings(broker: Broker, *failures: Exception) -> list[set[str]]:
    """Count the readings of the store, of which the first ones fail."""
    read, readings, left = broker.controller.read_topics, [], list(failures)

    async def counted(names: Iterable[str]) -> dict[str, TopicRecord]:
        readings.append(set(names))
        if left:
            raise left.pop()
        return await read(names)

    broker.controller.read_topics = counted  # type: ignore[method-assign]
    return readings


def count_tries(broker: Broker) -> list[TopicPartition]:
    """Count the markers that are tried to write."""
    markers, tries = broker.transactions.markers, []
    write = markers.write

    def counted(marker: Marker, name: TopicPartition) -> WrittenMarker | bool | None:
        tries.append(name)
        return write(marker, name)

    markers.write = counted  # type: ignore[method-assign]
    return tries


def test_many_markers_are_written_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.coordinator.transaction_shard._MARKERS_PER_TURN", 2)

    async def scenario(broker: Broker) -> None:
        producer = await began(broker, *CLICKS)

        await end(broker, producer)

        assert state_of(broker) == "PrepareCommit"
        await turns()
        assert state_of(broker) == "CompleteCommit"
        assert all(is_stable(broker, name) for name in CLICKS)

    run(tmp_path, scenario)


def test_a_partition_that_has_seen_a_later_epoch_does_not_hold_up_the_others(
    tmp_path: Path,
) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await init(broker)
        await broker.transactions.add_partitions(adding(producer))
        foreign = sample_batch(
            b"v",
            timestamp_ms=broker.clock.wall_ms(),
            producer_id=producer.producer_id,
            producer_epoch=9,
            sequence=0,
        )
        log_of(broker, CLICKS[0]).append(foreign)

        assert (await end(broker, producer)).error is NONE
        assert state_of(broker) == "CompleteCommit"

    run(tmp_path, scenario)


def test_a_topic_with_an_open_transaction_does_not_become_a_mirror(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        link = [ConfigAlteration("headrace.mirror.link", ConfigOperation.SET, "east")]

        rejection = await broker.controller.administer(
            lambda controller: controller.alter_topic_configs("clicks", link)
        )

        assert rejection is not None
        assert rejection.error is ClusterError.INVALID_CONFIG
        assert (await end(broker, producer)).error is NONE
        assert state_of(broker) == "CompleteCommit"
        assert all(is_stable(broker, name) for name in CLICKS[:2])

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", [0, 2])
def test_what_was_committed_waits_for_a_leader_that_still_takes_the_topic_for_a_mirror(
    tmp_path: Path, version: int
) -> None:
    """A broker that has become the leader may read of the promotion later."""

    async def scenario(broker: Broker) -> None:
        producer = await began(broker, version=version)
        log = log_of(broker, CLICKS[1]).log
        promoted = log.config
        log.config = replace(promoted, headrace_mirror_link="east")

        assert (await end(broker, producer, version=version)).error is NONE
        await turns()
        assert state_of(broker) == "PrepareCommit"

        log.config = promoted
        await until(lambda: state_of(broker) == "CompleteCommit")
        assert is_stable(broker, CLICKS[1])

    run(tmp_path, scenario)


def test_a_mirror_where_the_producer_has_nothing_open_needs_no_marker(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.controller.create_topics(
            [TopicToCreate(name="mirror", configs={"headrace.mirror.link": "east"})]
        )
        producer = await init(broker)
        event = adding(producer, TopicPartition("mirror", 0))
        assert (await broker.transactions.add_partitions(event)).error is NONE

        assert (await end(broker, producer, commit=False)).error is NONE
        assert state_of(broker) == "CompleteAbort"

    run(tmp_path, scenario)


# -- restarts


def test_a_decided_transaction_is_carried_out_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: Any) -> None:
        raise LogDirectoryOffline("not now")

    async def before(broker: Broker) -> None:
        producer = await began(broker)
        monkeypatch.setattr("headrace.broker.coordinator.marker_writer.MarkerWriter.write", offline)
        assert (await end(broker, producer)).error is NONE
        assert state_of(broker) == "PrepareCommit"

    async def after(broker: Broker) -> None:
        await loaded(broker)
        assert state_of(broker) == "CompleteCommit"
        assert is_stable(broker, CLICKS[0])
        assert is_stable(broker, CLICKS[1])

    run(tmp_path, before)
    monkeypatch.undo()
    run(tmp_path, after)


def test_an_open_transaction_is_still_open_after_a_restart(tmp_path: Path) -> None:
    producers: list[InitReply] = []

    async def before(broker: Broker) -> None:
        producers.append(await began(broker))

    async def after(broker: Broker) -> None:
        await loaded(broker)
        assert not is_stable(broker, CLICKS[0])
        assert (await end(broker, producers[0])).error is NONE
        assert is_stable(broker, CLICKS[0])

    run(tmp_path, before)
    run(tmp_path, after)


def test_a_shard_that_loads_says_so_and_no_list_is_given(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await init(broker)
        gate = asyncio.Event()
        in_thread = broker.in_thread

        async def held(work: Callable[[], Any]) -> Any:
            await gate.wait()
            return await in_thread(work)

        broker.in_thread = held  # type: ignore[method-assign]
        reload(broker)

        assert (await init(broker)).error is TransactionError.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(TransactionRefusal, match="LOAD_IN_PROGRESS"):
            broker.transactions.registries()
        gate.set()
        await loaded(broker)
        assert (await init(broker)).producer_epoch == 1

    run(tmp_path, scenario)


def test_a_shard_that_cannot_be_loaded_is_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(broker: Broker) -> None:
        await init(broker)

        async def damaged(_: Callable[[], Any]) -> Any:
            raise StorageError("the disk does not answer")

        monkeypatch.setattr(broker, "in_thread", damaged)
        reload(broker)
        await turns()

        assert (await init(broker)).error is TransactionError.COORDINATOR_NOT_AVAILABLE

    run(tmp_path, scenario)


def reload(broker: Broker) -> None:
    topic = broker.topics.by_name(TRANSACTION_STATE)
    assert topic is not None
    broker.transactions.stop()
    broker.transactions.load([each for each in topic.partitions if each is not None])


def test_deleting_the_topic_forgets_every_id(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await init(broker)
        await init(broker)
        await broker.controller.administer(
            lambda controller: controller.delete_topics([TRANSACTION_STATE])
        )

        assert broker.transactions.describe("t") is TransactionError.TRANSACTIONAL_ID_NOT_FOUND
        assert (await init(broker)).producer_epoch == 0

    run(tmp_path, scenario)


def test_ids_that_nobody_uses_expire_a_few_in_each_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.coordinator.transaction_shard._EFFECTS_PER_TURN", 2)

    async def scenario(broker: Broker) -> None:
        for number in range(5):
            event = InitProducerId(transactional_id=f"t{number}", timeout_ms=1000)
            assert (await broker.transactions.init_producer_id(event)).error is NONE
        (registry,) = broker.transactions.registries()

        await until(lambda: len(registry) == 0)

        assert (await init(broker)).producer_epoch == 0

    settings = {
        "transaction.state.log.num.partitions": "1",
        "transactional.id.expiration.ms": "1",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
    }
    run(tmp_path, scenario, settings=settings)


# -- a disk that fails


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        fail_appends(monkeypatch, DiskFull("no room"))
        refused = await end(broker, producer)
        monkeypatch.undo()

        assert refused.error is TransactionError.COORDINATOR_NOT_AVAILABLE
        assert state_of(broker) == "Ongoing"
        assert (await end(broker, producer)).error is NONE

    run(tmp_path, scenario)


@pytest.mark.parametrize("error", [StorageError("EIO"), RuntimeError("a bug of ours")])
def test_after_any_other_failure_the_shard_answers_nothing_until_it_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        fail_appends(monkeypatch, error)
        refused = await end(broker, producer)
        monkeypatch.undo()

        lost = TransactionError.COORDINATOR_NOT_AVAILABLE
        assert refused.error is lost
        assert (await end(broker, producer)).error is lost
        assert broker.transactions.describe("t") is lost
        assert broker.transactions.join(adding(producer, CLICKS[0]), implicit=True) == {
            CLICKS[0]: lost
        }
        reload(broker)
        await loaded(broker)
        assert (await end(broker, producer)).error is NONE

    run(tmp_path, scenario)


def fail_appends(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def append(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("headrace.broker.replica.partition.Partition.append", append)


# -- group commit: nothing follows a record before the disk has it


def test_no_marker_before_the_decision_is_on_disk_and_no_completion_before_the_markers(
    tmp_path: Path,
) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        disk = HeldDisk(broker)
        ending = asyncio.create_task(end(broker, producer))
        await turns()

        assert not ending.done()
        assert not is_stable(broker, CLICKS[0])
        assert await disk.sync() == [TRANSACTION_STATE]
        assert (await ending).error is NONE
        assert is_stable(broker, CLICKS[0])
        assert state_of(broker) == "PrepareCommit"
        assert await disk.sync() == ["clicks", "clicks"]
        assert state_of(broker) == "PrepareCommit"
        assert await disk.sync() == [TRANSACTION_STATE]
        assert state_of(broker) == "CompleteCommit"

    run(tmp_path, scenario, settings=GROUP_COMMIT)


def test_records_wait_until_their_partition_is_in_the_transaction_on_disk(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await init(broker)
        disk = HeldDisk(broker)
        event = adding(producer, CLICKS[0], version=2)
        first = asyncio.create_task(broker.transactions.joined(event, implicit=True))
        second = asyncio.create_task(broker.transactions.joined(event, implicit=True))
        await turns()

        assert not first.done()
        assert len(disk.waiting) == 1
        await disk.sync()
        assert (await first, await second) == ({}, {})
        assert not disk.waiting

    run(tmp_path, scenario, settings=GROUP_COMMIT)


def test_a_request_waits_for_the_change_that_is_being_written(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        disk = HeldDisk(broker)
        ending = asyncio.create_task(end(broker, producer))
        await turns()
        taking_over = asyncio.create_task(init(broker))
        await turns()

        while disk.waiting:
            assert not taking_over.done()
            await disk.sync()
        assert (await ending).error is NONE
        assert (await taking_over).producer_epoch == producer.producer_epoch + 1

    run(tmp_path, scenario, settings=GROUP_COMMIT)


def test_a_client_that_goes_away_does_not_stop_what_it_began(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        disk = HeldDisk(broker)
        ending = asyncio.create_task(end(broker, producer))
        waiting = asyncio.create_task(init(broker))
        await turns()
        ending.cancel()
        waiting.cancel()
        await turns()

        while disk.waiting:
            await disk.sync()
        assert state_of(broker) == "CompleteCommit"

    run(tmp_path, scenario, settings=GROUP_COMMIT)


def test_a_failed_sync_loses_the_shard_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker)
        disk = HeldDisk(broker)
        ending = asyncio.create_task(end(broker, producer))
        await turns()
        waiting = asyncio.create_task(init(broker))
        await turns()
        await disk.fail()

        lost = TransactionError.COORDINATOR_NOT_AVAILABLE
        assert (await ending).error is lost
        assert (await waiting).error is lost
        assert not is_stable(broker, CLICKS[0])

    run(tmp_path, scenario, settings=GROUP_COMMIT)


def test_a_marker_whose_sync_failed_is_written_again(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        producer = await began(broker, CLICKS[0])
        disk = HeldDisk(broker)
        ending = asyncio.create_task(end(broker, producer))
        await turns()
        await disk.sync()
        await ending
        await disk.fail()
        assert state_of(broker) == "PrepareCommit"

        await until(lambda: bool(disk.waiting))
        assert await disk.sync() == ["clicks"]
        await disk.sync()
        assert state_of(broker) == "CompleteCommit"

    run(tmp_path, scenario, settings=GROUP_COMMIT)
