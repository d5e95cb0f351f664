"""The group coordinator in a real broker, in this process: what it does when things go wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.broker.broker import Broker
from headrace.broker.config.internal_topic import CONSUMER_OFFSETS
from headrace.broker.coordinator import group_coordinator
from headrace.broker.coordinator.broker_topics import BrokerTopics
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic_command import TopicToCreate
from headrace.groups.classic.message import (
    HeartbeatReply,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    SyncReply,
    SyncRequest,
)
from headrace.groups.effect import Producer
from headrace.groups.error import GroupError, Refusal
from headrace.groups.offset.message import CommitReply, CommitRequest, OffsetToCommit
from headrace.groups.record import MemberProtocol
from headrace.groups.registry import GroupRegistry
from headrace.model.clock import ManualClock
from headrace.model.coordinator import coordinator_partition
from headrace.model.error import (
    DiskFull,
    InvalidProducerEpoch,
    NotEnoughReplicas,
    StorageError,
)
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.testing.local_broker import local_broker

CLICKS_0 = TopicPartition("clicks", 0)
DAY_MS = 24 * 60 * 60 * 1000
PRODUCER = Producer(ProducerId(7), ProducerEpoch(0))

Scenario = Callable[[Broker], Awaitable[None]]


def run(data: Path, scenario: Scenario, **more: Any) -> None:
    """Run a scenario on a broker that has the topic clicks."""

    async def main() -> None:
        async with local_broker(data, **more) as server:
            if server.broker.topics.by_name("clicks") is None:
                await server.broker.controller.create_topics([TopicToCreate(name="clicks")])
            await scenario(server.broker)

    asyncio.run(main())


async def commit(
    broker: Broker, offset: int = 5, group: str = "g", producer: Producer | None = None
) -> CommitReply:
    topic = broker.topics.by_name("clicks")
    assert topic is not None
    wanted = OffsetToCommit(offset=offset, topic_id=topic.topic_id)
    request = CommitRequest(group_id=group, offsets={CLICKS_0: wanted}, producer=producer)
    return await broker.groups.handle(request)


async def join(broker: Broker, member_id: str = "", **changes: Any) -> JoinReply:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "client_id": "me",
        "protocol_type": "consumer",
        "protocols": (MemberProtocol("range", b""),),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "require_member_id": False,
    }
    request = JoinRequest(**fields | changes)
    return await broker.groups.handle(request)


async def committed(broker: Broker, group: str = "g") -> int:
    registry = await broker.groups.registry(group)
    return registry.fetch_offsets(group, [CLICKS_0])[CLICKS_0].offset


async def fetched(broker: Broker) -> int:
    """What a client hears that asks for the offset of g."""
    offsets = await broker.groups.read_when_safe("g", lambda g: g.fetch_offsets("g", [CLICKS_0]))
    return offsets[CLICKS_0].offset


async def loaded(broker: Broker, group: str = "g") -> GroupRegistry:
    while True:
        try:
            return await broker.groups.registry(group)
        except Refusal as refusal:
            assert refusal.error is GroupError.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0)


async def checked(broker: Broker) -> None:
    """Wait until the offsets of topics that are gone have been deleted."""
    registry = await broker.groups.registry("g")
    async with asyncio.timeout(60):
        while registry.suspects:
            await asyncio.sleep(0.001)


def partition_of(broker: Broker, group: str = "g") -> Any:
    topic = broker.topics.by_name(CONSUMER_OFFSETS)
    assert topic is not None
    return topic.partitions[coordinator_partition(group, len(topic.partitions))]


async def turns(count: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


def fail_appends(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def append(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("headrace.broker.replica.partition.Partition.append", append)


def test_the_first_group_makes_the_topic(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        assert (await commit(broker)).error is None
        topic = broker.topics.by_name(CONSUMER_OFFSETS)

        assert topic is not None
        assert len(topic.partitions) == 4
        assert partition_of(broker).log.config.compacted

    run(tmp_path, scenario)


def test_offsets_are_there_after_a_restart(tmp_path: Path) -> None:
    async def before(broker: Broker) -> None:
        await commit(broker, 41)
        await commit(broker, 42)

    async def after(broker: Broker) -> None:
        await loaded(broker)
        assert await committed(broker) == 42

    run(tmp_path, before)
    run(tmp_path, after)


def test_a_shard_that_loads_says_so_and_no_list_is_given(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker)
        gate = asyncio.Event()
        in_thread = broker.in_thread

        async def held(work: Callable[[], Any]) -> Any:
            await gate.wait()
            return await in_thread(work)

        broker.in_thread = held  # type: ignore[method-assign]
        broker.groups.stop()
        broker.groups.load([partition_of(broker)])

        assert (await commit(broker)).error is GroupError.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(Refusal, match="being loaded"):
            broker.groups.registries()
        gate.set()
        await loaded(broker)
        assert [len(registry.group_ids()) for registry in broker.groups.registries()] == [1]

    run(tmp_path, scenario)


def test_a_marker_that_comes_while_a_shard_loads_is_not_missed(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 9, producer=PRODUCER)
        in_thread = broker.in_thread

        async def then_a_marker(work: Callable[[], Any]) -> Any:
            result = await in_thread(work)
            broker.in_thread = in_thread  # type: ignore[method-assign]
            partition = partition_of(broker)
            partition.append_marker(7, 0, commit=True, coordinator_epoch=0)
            broker.groups.transaction_ended(
                partition.name.partition, PRODUCER.producer_id, commit=True
            )
            return result

        broker.in_thread = then_a_marker  # type: ignore[method-assign]
        broker.groups.stop()
        broker.groups.load([partition_of(broker)])
        await loaded(broker)

        assert await committed(broker) == 9

    run(tmp_path, scenario)


def test_a_shard_that_cannot_be_loaded_is_not_coordinated_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker)

        async def damaged(_: Callable[[], Any]) -> Any:
            raise StorageError("the disk does not answer")

        monkeypatch.setattr(broker, "in_thread", damaged)
        broker.groups.stop()
        broker.groups.load([partition_of(broker)])
        await turns()
        monkeypatch.undo()

        assert (await commit(broker)).error is GroupError.NOT_COORDINATOR

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (DiskFull("no room"), GroupError.COORDINATOR_NOT_AVAILABLE),
        (InvalidProducerEpoch("a zombie"), GroupError.INVALID_PRODUCER_EPOCH),
    ],
)
def test_an_append_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, answer: GroupError
) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 1)
        fail_appends(monkeypatch, error)
        refused = await commit(broker, 2)
        monkeypatch.undo()

        assert refused.error is answer
        assert await committed(broker) == 1
        assert (await commit(broker, 3)).error is None

    run(tmp_path, scenario)


def test_a_mistake_of_our_own_leaves_no_event_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 1)
        fail_appends(monkeypatch, RuntimeError("a bug"))
        with pytest.raises(RuntimeError, match="a bug"):
            await commit(broker, 2)
        monkeypatch.undo()

        assert (await commit(broker, 3)).error is None

    run(tmp_path, scenario)


def test_a_name_that_no_record_can_hold_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        endless = "x" * 40_000
        assert (await commit(broker, group=endless)).error is GroupError.INVALID_REQUEST
        assert (await commit(broker, 1, group=endless[:100])).error is None

    run(tmp_path, scenario)


def test_with_group_commit_a_reply_waits_for_the_disk(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 1)
        synced: asyncio.Future[object] = broker.loop.create_future()
        broker.when_synced = lambda *_: synced  # type: ignore[method-assign]
        waiting = asyncio.create_task(commit(broker, 2))
        await turns()

        assert not waiting.done()
        synced.set_result(None)
        assert (await waiting).error is None

    run(tmp_path, scenario, settings={"log.flush.interval.messages": "1"})


async def sync(broker: Broker, member: JoinReply) -> SyncReply:
    request = SyncRequest(
        group_id="g",
        member_id=member.member_id,
        generation=member.generation,
        assignments={member.member_id: b"all"},
    )
    return await broker.groups.handle(request)


async def beat(broker: Broker, member_id: str, generation: int = 1) -> HeartbeatReply:
    request = HeartbeatRequest(group_id="g", member_id=member_id, generation=generation)
    return await broker.groups.handle(request)


def hold_syncs(broker: Broker) -> "asyncio.Future[object]":
    """Let nothing that is appended from now on be safe before the returned future is done."""
    synced: asyncio.Future[object] = broker.loop.create_future()
    broker.when_synced = lambda *_: synced  # type: ignore[method-assign]
    return synced


def test_no_reply_tells_of_an_assignment_that_is_not_safe_yet(tmp_path: Path) -> None:
    """A member that asked again got it, and the next coordinator would not have known it."""

    async def scenario(broker: Broker) -> None:
        member = await join(broker)
        synced = hold_syncs(broker)
        first = asyncio.create_task(sync(broker, member))
        await turns()
        again = asyncio.create_task(sync(broker, member))
        beating = asyncio.create_task(beat(broker, member.member_id))
        await turns()

        assert not first.done()
        assert not again.done()
        assert not beating.done()
        assert (await beat(broker, "unknown")).error is GroupError.UNKNOWN_MEMBER_ID
        synced.set_result(None)
        assert (await first).assignment == (await again).assignment == b"all"
        assert (await beating).error is None

    run(tmp_path, scenario, settings={"log.flush.interval.messages": "1"})


def test_no_reply_tells_of_a_loaded_assignment_that_is_not_safe_yet(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        member = await join(broker)
        await sync(broker, member)
        partition = partition_of(broker)
        broker.groups.unload(partition.name.partition)
        synced = hold_syncs(broker)
        broker.groups.load([partition])
        await loaded(broker)
        again = asyncio.create_task(sync(broker, member))
        await turns()

        assert not again.done()
        synced.set_result(None)
        assert (await again).assignment == b"all"

    run(tmp_path, scenario, settings={"log.flush.interval.messages": "1"})


def test_a_heartbeat_does_not_wait_for_offsets(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        member = await join(broker)
        await sync(broker, member)
        synced = hold_syncs(broker)
        topic = broker.topics.by_name("clicks")
        assert topic is not None
        request = CommitRequest(
            group_id="g",
            member_id=member.member_id,
            generation=member.generation,
            offsets={CLICKS_0: OffsetToCommit(offset=5, topic_id=topic.topic_id)},
        )
        waiting = asyncio.create_task(broker.groups.handle(request))
        await turns()

        assert (await beat(broker, member.member_id)).error is None
        assert not waiting.done()
        synced.set_result(None)
        assert (await waiting).error is None

    run(tmp_path, scenario, settings={"log.flush.interval.messages": "1"})


def test_offsets_are_told_when_they_cannot_be_lost_any_more(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 1)
        synced = hold_syncs(broker)
        assert await fetched(broker) == 1
        committing = asyncio.create_task(commit(broker, 2))
        await turns()
        fetching = asyncio.create_task(fetched(broker))
        await turns()

        assert not fetching.done()
        synced.set_result(None)
        assert (await committing).error is None
        assert await fetching == 2

    run(tmp_path, scenario, settings={"log.flush.interval.messages": "1"})


def test_offsets_that_are_lost_are_not_told(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 1)
        synced = hold_syncs(broker)
        committing = asyncio.create_task(commit(broker, 2))
        await turns()
        fetching = asyncio.create_task(fetched(broker))
        await turns()
        synced.set_exception(StorageError("fsync failed"))

        assert (await committing).error is GroupError.NOT_COORDINATOR
        with pytest.raises(Refusal) as refusal:
            await fetching
        assert refusal.value.error is GroupError.NOT_COORDINATOR

    run(tmp_path, scenario, settings={"log.flush.interval.messages": "1"})


def test_a_failed_sync_loses_the_shard_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 1)
        synced: asyncio.Future[object] = broker.loop.create_future()
        broker.when_synced = lambda *_: synced  # type: ignore[method-assign]
        parked = asyncio.create_task(join(broker, group_id="g", require_member_id=False))
        await turns()
        waiting = asyncio.create_task(commit(broker, 2, producer=PRODUCER))
        await turns()
        synced.set_exception(StorageError("fsync failed"))

        assert (await waiting).error is GroupError.NOT_COORDINATOR
        assert (await parked).error is GroupError.NOT_COORDINATOR
        assert (await commit(broker)).error is GroupError.NOT_COORDINATOR

    settings = {
        "log.flush.interval.messages": "1",
        "group.initial.rebalance.delay.ms": "60000",
    }
    run(tmp_path, scenario, settings=settings)


def test_a_client_that_goes_away_while_parked_harms_nobody(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        first = await join(broker)
        gone = asyncio.create_task(join(broker, "", client_id="gone"))
        await turns()
        gone.cancel()
        await turns()
        again = asyncio.create_task(join(broker, first.member_id))
        second = await again

        assert second.error is None
        assert second.generation == first.generation + 1
        assert len(second.members) == 2

    run(tmp_path, scenario)


def test_stopping_answers_parked_requests_at_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        parked = asyncio.create_task(join(broker))
        await asyncio.sleep(0)
        while broker.topics.by_name(CONSUMER_OFFSETS) is None:
            await asyncio.sleep(0)
        await turns()
        assert not parked.done()

        broker.groups.stop()

        assert (await parked).error is GroupError.NOT_COORDINATOR

    run(tmp_path, scenario, settings={"group.initial.rebalance.delay.ms": "60000"})


def test_a_topic_is_served_though_the_client_that_asked_for_it_went_away(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        asking = asyncio.create_task(commit(broker))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])

        assert (await commit(broker)).error is None

    run(tmp_path, scenario)


def test_deleting_a_topic_forgets_its_offsets(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 5)
        await broker.controller.administer(lambda controller: controller.delete_topics(["clicks"]))

        assert await committed(broker) == -1

    run(tmp_path, scenario)


def test_offsets_of_a_topic_that_went_in_a_crash_are_forgotten_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(broker: Broker) -> None:
        await commit(broker, 5)
        monkeypatch.setattr(broker.groups, "topics_deleted", lambda _: None)
        await broker.controller.administer(lambda controller: controller.delete_topics(["clicks"]))

    async def after(broker: Broker) -> None:
        await broker.controller.create_topics([TopicToCreate(name="clicks")])
        await loaded(broker)
        await checked(broker)
        assert await committed(broker) == -1

    async def main(scenario: Scenario) -> None:
        async with local_broker(tmp_path) as server:
            await scenario(server.broker)

    run(tmp_path, before)
    asyncio.run(main(after))


def test_offsets_of_a_deleted_topic_are_not_served_while_they_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_coordinator, "_RELOAD_SECONDS", 0.01)

    async def scenario(broker: Broker) -> None:
        await commit(broker, 5)

        def refuse(*_: object, **__: object) -> None:
            raise NotEnoughReplicas("too few are in sync")

        with monkeypatch.context() as patched:
            patched.setattr(Partition, "append", refuse)
            await broker.controller.administer(
                lambda controller: controller.delete_topics(["clicks"])
            )
            await broker.controller.create_topics([TopicToCreate(name="clicks")])
            with pytest.raises(Refusal) as refused:
                await committed(broker)

        assert refused.value.error is GroupError.COORDINATOR_LOAD_IN_PROGRESS
        await checked(broker)
        assert await committed(broker) == -1

    run(tmp_path, scenario)


def test_offsets_of_a_topic_that_is_not_served_yet_are_kept(tmp_path: Path) -> None:
    """A broker that becomes the coordinator may not have read of a topic's creation, or may still
    make its logs."""

    async def scenario(broker: Broker) -> None:
        await commit(broker, 5)
        index = coordinator_partition("g", len(broker.groups._shards))
        partition = broker.groups._shards[index].partition
        clicks = broker.topics.by_name("clicks")
        assert clicks is not None

        broker.topics.remove(clicks)
        broker.groups.unload(index)
        broker.groups.load([partition])
        await loaded(broker)
        await checked(broker)
        broker.topics.add(clicks)

        assert await committed(broker) == 5

    run(tmp_path, scenario)


def test_deleting_the_offsets_topic_ends_its_groups(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await commit(broker, 5)
        await broker.controller.administer(
            lambda controller: controller.delete_topics([CONSUMER_OFFSETS])
        )

        assert await committed(broker) == -1
        assert (await commit(broker, 6)).error is None

    run(tmp_path, scenario)


def test_offsets_and_the_group_expire_when_nobody_is_left(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario(broker: Broker) -> None:
        await commit(broker, 5)
        clock.advance(6 * DAY_MS)
        broker.groups.expire()
        await turns()
        assert await committed(broker) == 5

        clock.advance(DAY_MS)
        broker.groups.expire()
        await turns()

        assert (await broker.groups.registry("g")).group_ids() == []

    run(tmp_path, scenario, clock=clock)


class JumpingClock(ManualClock):
    """A wall clock that can be set while time passes evenly."""

    jump_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.jump_ms


def test_setting_the_clock_ends_no_session(tmp_path: Path) -> None:
    clock = JumpingClock()

    async def scenario(broker: Broker) -> None:
        joined = asyncio.create_task(join(broker))
        while not joined.done():
            clock.advance(1)
            await asyncio.sleep(0)
        clock.jump_ms = DAY_MS
        await commit(broker, group="other")
        await turns()

        registry = await broker.groups.registry("g")
        description = registry.describe_classic("g")
        assert description is not None
        assert [member.member_id for member in description.members] == [
            cast(JoinReply, joined.result()).member_id
        ]

    run(tmp_path, scenario, clock=clock)


def test_a_commit_has_the_time_of_the_wall_clock(tmp_path: Path) -> None:
    """Else a laptop that slept for a week wrote commits of a week ago, for others to read."""
    clock = JumpingClock()

    async def scenario(broker: Broker) -> None:
        clock.jump_ms = 7 * DAY_MS
        await commit(broker, 5)
        clock.jump_ms += 6 * DAY_MS
        broker.groups.expire()
        await turns()
        assert await committed(broker) == 5

        clock.jump_ms += DAY_MS
        broker.groups.expire()
        await turns()
        assert (await broker.groups.registry("g")).group_ids() == []

    run(tmp_path, scenario, clock=clock)


def test_names_of_topics_stay_one_object_while_only_leaders_move(tmp_path: Path) -> None:
    """Groups match their regular expressions again only when they see another object."""

    async def scenario(broker: Broker) -> None:
        await join(broker)
        topics = BrokerTopics(broker)
        names = topics.names()
        version = topics.version
        topic = broker.topics.by_name(CONSUMER_OFFSETS)
        assert topic is not None
        broker.topics.changed(topic)
        assert topics.version != version
        assert topics.names() is names
        assert list(names) == [CONSUMER_OFFSETS, "clicks"]
        broker.topics.remove(topic)
        assert list(topics.names()) == ["clicks"]

    run(tmp_path, scenario)
