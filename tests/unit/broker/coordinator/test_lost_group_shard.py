"""A shard of groups that this broker stops to lead, while work on it is under way."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.broker import Broker
from headrace.broker.config.internal_topic import CONSUMER_OFFSETS
from headrace.broker.coordinator import group_coordinator
from headrace.broker.coordinator.group_shard import GroupShard
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.groups.classic.message import JoinReply, JoinRequest, SyncRequest
from headrace.groups.error import GroupError
from headrace.groups.offset.message import CommitRequest, OffsetToCommit
from headrace.groups.record import MemberProtocol
from headrace.groups.registry import GroupRegistry
from headrace.model.clock import ManualClock
from headrace.model.ids import TopicPartition
from headrace.testing.local_broker import local_broker

CLICKS_0 = TopicPartition("clicks", 0)
DAY_MS = 24 * 60 * 60 * 1000
# What a consumer of clicks sends: version 0, one topic, no user data.
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6clicks\xff\xff\xff\xff"

Scenario = Callable[[Broker], Awaitable[None]]


def run(data: Path, scenario: Scenario, clock: ManualClock | None = None) -> None:
    """Run a scenario on a broker that has the topic clicks, and all groups in one shard."""
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}

    async def main() -> None:
        async with local_broker(data, clock=clock, settings=settings) as server:
            await server.broker.controller.create_topics([TopicToCreate(name="clicks")])
            await scenario(server.broker)

    asyncio.run(main())


async def commit(broker: Broker, group: str, **more: Any) -> None:
    topic = broker.topics.by_name("clicks")
    assert topic is not None
    wanted = OffsetToCommit(offset=5, topic_id=topic.topic_id)
    reply = await broker.groups.handle(
        CommitRequest(group_id=group, offsets={CLICKS_0: wanted}, **more)
    )
    assert reply.error is None


async def join(broker: Broker, group: str) -> JoinReply:
    member = await broker.groups.handle(
        JoinRequest(
            group_id=group,
            member_id="",
            client_id="me",
            protocol_type="consumer",
            protocols=(MemberProtocol("range", SUBSCRIPTION),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            require_member_id=False,
        )
    )
    assert member.error is None
    synced = await broker.groups.handle(
        SyncRequest(
            group_id=group,
            member_id=member.member_id,
            generation=member.generation,
            assignments={member.member_id: b""},
        )
    )
    assert synced.error is None
    return member


def only_partition(broker: Broker) -> Partition:
    topic = broker.topics.by_name(CONSUMER_OFFSETS)
    assert topic is not None
    return topic.partitions[0]


def only_shard(broker: Broker) -> GroupShard:
    return broker.groups._shards[0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_sweep_deletes_nothing_of_a_shard_that_was_lost_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saw the groups without their members, so that the offsets of a live one looked old."""
    monkeypatch.setattr(group_coordinator, "_EXPIRIES_PER_TURN", 1)
    clock = ManualClock()

    async def scenario(broker: Broker) -> None:
        await commit(broker, "a first")
        member = await join(broker, "g")
        await commit(broker, "g", member_id=member.member_id, generation=member.generation)
        clock.advance(8 * DAY_MS)
        partition = only_partition(broker)
        broker.groups.expire()
        await asyncio.sleep(0)  # the sweep has looked at the first group
        broker.groups.unload(0)
        sweep = broker.groups._expiry
        assert sweep is not None
        await sweep
        broker.groups.load([partition])
        await until(lambda: not only_shard(broker).loading)

        offsets = only_shard(broker).registry.fetch_offsets("g", [CLICKS_0])
        assert offsets[CLICKS_0].offset == 5
        assert only_shard(broker).registry.group_ids() == ["g"]

    run(tmp_path, scenario, clock)


def test_a_shard_that_is_lost_while_it_loads_is_not_opened(tmp_path: Path) -> None:
    """Its members' sessions ran out, and what that appends was refused and tried for ever."""

    async def scenario(broker: Broker) -> None:
        await join(broker, "g")
        partition = only_partition(broker)
        in_thread, gate = broker.in_thread, asyncio.Event()

        async def held(work: Callable[[], Any]) -> Any:
            result = await in_thread(work)
            await gate.wait()
            return result

        broker.in_thread = held  # type: ignore[method-assign]
        broker.groups.unload(0)
        broker.groups.load([partition])
        shard = only_shard(broker)
        broker.groups.unload(0)
        gate.set()
        await until(lambda: not broker.groups._tasks)

        assert shard.loading
        assert shard.timer is None

    run(tmp_path, scenario)


def test_a_shard_that_is_lost_while_it_loads_is_left_to_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Going through groups that a thread adds to fails, and the change of leaders with it."""
    began, go_on = threading.Event(), threading.Event()

    async def scenario(broker: Broker) -> None:
        for group in ("a", "b", "c"):
            await commit(broker, group)
        replay = GroupRegistry.replay

        def slow(self: GroupRegistry, *record: Any) -> None:
            replay(self, *record)
            began.set()
            assert go_on.wait(60)

        monkeypatch.setattr(GroupRegistry, "replay", slow)
        partition = only_partition(broker)
        broker.groups.unload(0)
        broker.groups.load([partition])
        shard = only_shard(broker)
        await until(began.is_set)
        broker.groups.unload(0)

        assert shard.registry.group_ids() == ["a"]
        go_on.set()
        await until(lambda: not broker.groups._tasks)
        assert shard.registry.group_ids() == ["a"]  # the rest is not read in vain

    run(tmp_path, scenario)


def test_a_shard_that_was_lost_while_it_loaded_can_be_led_again(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, "g")
        partition = only_partition(broker)
        for _ in range(3):
            broker.groups.unload(0)
            broker.groups.load([partition])
        await until(lambda: not only_shard(broker).loading)

        assert only_shard(broker).registry.group_ids() == ["g"]
        assert not only_shard(broker).lost

    run(tmp_path, scenario)


def test_a_registry_forgets_its_offsets_with_its_groups(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, "g")
        shard = only_shard(broker)
        broker.groups.unload(0)

        assert shard.registry.group_ids() == []
        reply = await broker.groups.handle(CommitRequest(group_id="g", offsets={}))
        assert reply.error is GroupError.NOT_COORDINATOR

    run(tmp_path, scenario)
