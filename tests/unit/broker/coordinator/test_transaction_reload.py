"""A transaction coordinator whose records other replicas did not get in time comes back."""

import asyncio
from pathlib import Path

import pytest

from headrace.broker.broker import Broker
from headrace.broker.coordinator import transaction_shard
from headrace.broker.replica.partition import Partition
from headrace.model.error import HeadraceError, NotEnoughReplicasAfterAppend, NotLeader
from headrace.testing.local_broker import local_broker
from headrace.transactions.error import TransactionError
from headrace.transactions.message import InitProducerId

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
    async with asyncio.timeout(10):
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
            async with asyncio.timeout(10):
                while any(shard.lost for shard in broker.transactions._shards.values()):
                    await asyncio.sleep(0.001)
            async with asyncio.timeout(10):
                while await init(broker, "a") is not NONE:
                    await asyncio.sleep(0.001)

    asyncio.run(main())
