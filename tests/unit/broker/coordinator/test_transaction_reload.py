"""A transaction coordinator whose records other replicas did not get in time comes back."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.broker.broker import Broker
from headrace.broker.coordinator import transaction_shard
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.error import HeadraceError, NotEnoughReplicasAfterAppend, NotLeader
from headrace.model.ids import TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions, EndTransaction, InitProducerId

NONE = TransactionError.NONE
IDS = ("a", "b")


async def init(broker: Broker, name: str) -> TransactionError:
    event = InitProducerId(transactional_id=name, timeout_ms=60_000)
    return (await broker.transactions.init_producer_id(event)).error


async def fail_together(broker: Broker, error: HeadraceError) -> list[TransactionError]:
    """Let a change of each id wait for the replicas at the same time, and fail."""
    waiting: list[asyncio.Future[object]] = []

    def wait(partition: Partition, end: int) -> "asyncio.Future[object]":
        waiting.append(broker.loop.create_future())
        return waiting[-1]

    kept = broker.when_synced
    broker.when_synced = wait  # type: ignore[method-assign]
    asked = [asyncio.create_task(init(broker, name)) for name in IDS]
    async with asyncio.timeout(60):
        while len(waiting) < len(IDS):
            await asyncio.sleep(0.001)
    broker.when_synced = kept  # type: ignore[method-assign]
    for each in waiting:
        each.set_exception(error)
    return [await each for each in asked]


@pytest.mark.parametrize(
    "error", [NotEnoughReplicasAfterAppend("too few"), NotLeader("this broker is cut off")]
)
def test_a_shard_that_lost_several_changes_at_once_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: HeadraceError
) -> None:
    monkeypatch.setattr(transaction_shard, "_RELOAD_SECONDS", 0.01)

    async def main() -> None:
        settings = {
            "log.flush.interval.messages": "1",
            "transaction.state.log.num.partitions": "1",
        }
        async with local_broker(tmp_path, settings=settings) as server:
            broker = server.broker
            assert await init(broker, "a") is NONE
            assert NONE not in await fail_together(broker, error)

            # By itself: no request asks for it.
            async with asyncio.timeout(60):
                while any(shard.lost for shard in broker.transactions._shards.values()):
                    await asyncio.sleep(0.001)
            async with asyncio.timeout(60):
                while await init(broker, "a") is not NONE:
                    await asyncio.sleep(0.001)

    asyncio.run(main())


def test_a_coordinator_that_is_cut_off_writes_no_marker_of_what_it_could_not_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_shard, "_RELOAD_SECONDS", 0.01)

    async def main() -> None:
        settings = {
            "log.flush.interval.messages": "1",
            "transaction.state.log.num.partitions": "1",
        }
        async with local_broker(tmp_path, settings=settings) as server:
            broker = server.broker
            await broker.controller.create_topics(
                [TopicToCreate(name="d", partitions=1, replication_factor=1)]
            )
            begun = await begin(broker, "a", TopicPartition("d", 0))
            topic = broker.topics.by_name("d")
            assert topic is not None
            data = topic.partitions[0]
            assert data is not None
            shard = broker.transactions._shards[0].partition

            assert await end_while_cut_off(broker, shard, begun) is not NONE
            reloads = [0]
            tried = transaction_shard.TransactionShard.reloadable
            monkeypatch.setattr(
                transaction_shard.TransactionShard,
                "reloadable",
                property(lambda self: counted(reloads, tried.fget(self))),  # type: ignore[misc]
            )
            async with asyncio.timeout(60):
                while reloads[0] < 3:
                    await asyncio.sleep(0.001)
            assert data.log.log_end_offset == 0

            shard.set_stranded(False)
            async with asyncio.timeout(60):
                while data.log.log_end_offset == 0:
                    await asyncio.sleep(0.001)
            assert data.log.log_end_offset == 1

    asyncio.run(main())


@pytest.mark.parametrize("error", [None, NotEnoughReplicasAfterAppend("too few")])
def test_a_shard_serves_nothing_before_its_records_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: HeadraceError | None
) -> None:
    """A broker that begins to lead may have records that no other replica has: the next leader
    would not know the transactions that it has answered for. The log says what it waits for."""
    monkeypatch.setattr(transaction_shard, "_RELOAD_SECONDS", 0.01)
    monkeypatch.setattr(transaction_shard, "_SLOW_LOAD_SECONDS", 0.001)

    async def main() -> None:
        settings = {
            "log.flush.interval.messages": "1",
            "transaction.state.log.num.partitions": "1",
        }
        async with local_broker(tmp_path, settings=settings) as server:
            broker = server.broker
            assert await init(broker, "a") is NONE
            shard = broker.transactions._shards[0].partition
            uncommitted: asyncio.Future[object] = broker.loop.create_future()
            kept = broker.when_synced
            broker.when_synced = lambda partition, end: uncommitted  # type: ignore[method-assign]

            broker.transactions.unload(0)
            broker.transactions.load([shard])
            with capture_logs() as lines:
                async with asyncio.timeout(60):
                    while not lines:
                        await asyncio.sleep(0.001)
            assert [line["event"] for line in lines] == ["transactions_wait_for_replicas"]
            described = broker.transactions.describe("a")
            assert described is TransactionError.COORDINATOR_LOAD_IN_PROGRESS

            broker.when_synced = kept  # type: ignore[method-assign]
            if error is None:
                uncommitted.set_result(None)
            else:
                uncommitted.set_exception(error)
            async with asyncio.timeout(60):
                while await init(broker, "a") is not NONE:
                    await asyncio.sleep(0.001)

    asyncio.run(main())


def counted(counts: list[int], value: bool) -> bool:
    counts[0] += 1
    return value


async def begin(broker: Broker, name: str, place: TopicPartition) -> EndTransaction:
    """Begin a transaction with one partition, and return the request that commits it."""
    event = InitProducerId(transactional_id=name, timeout_ms=60_000)
    made = await broker.transactions.init_producer_id(event)
    added = AddPartitions(
        transactional_id=name,
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        partitions=frozenset([place]),
    )
    assert (await broker.transactions.add_partitions(added)).error is NONE
    return EndTransaction(
        transactional_id=name,
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        commit=True,
    )


async def end_while_cut_off(
    broker: Broker, shard: Partition, request: EndTransaction
) -> TransactionError:
    """Append the decision, and let its broker be cut off before the other replicas have it."""
    waiting: list[asyncio.Future[object]] = []

    def wait(partition: Partition, end: int) -> "asyncio.Future[object]":
        waiting.append(broker.loop.create_future())
        return waiting[-1]

    kept = broker.when_synced
    broker.when_synced = wait  # type: ignore[method-assign]
    asked = asyncio.create_task(broker.transactions.end_transaction(request))
    async with asyncio.timeout(60):
        while not waiting:
            await asyncio.sleep(0.001)
    broker.when_synced = kept  # type: ignore[method-assign]
    shard.set_stranded(True)
    waiting[0].set_exception(NotLeader("this broker is cut off"))
    return (await asked).error
