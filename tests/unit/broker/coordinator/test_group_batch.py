"""How large the batches get that a group coordinator writes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from headrace.broker.broker import Broker
from headrace.broker.config.internal_topic import CONSUMER_OFFSETS
from headrace.broker.coordinator.group_batch import build_group_batches
from headrace.cluster.topic_command import TopicToCreate
from headrace.groups.classic.message import JoinReply, JoinRequest, SyncReply, SyncRequest
from headrace.groups.consumer.message import LEAVE_EPOCH, ConsumerHeartbeat, ConsumerHeartbeatReply
from headrace.groups.effect import GroupEffects, Producer
from headrace.groups.error import GroupError
from headrace.groups.offset.message import (
    CommitReply,
    CommitRequest,
    DeleteGroupRequest,
    OffsetToCommit,
)
from headrace.groups.offset.store import tombstone
from headrace.groups.record import (
    GroupEpoch,
    GroupEpochRecord,
    GroupRecord,
    MemberProtocol,
    OffsetCommitRecord,
    RegexRecord,
    ResolvedRegex,
    StoredOffset,
)
from headrace.model.error import BatchTooLarge
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.records.batch import iter_batches
from headrace.records.record import iter_records
from headrace.testing.local_broker import local_broker

MAX_BYTES = 1_048_588
KEPT = StoredOffset(
    offset=5, leader_epoch=-1, metadata="", commit_timestamp_ms=0, expire_timestamp_ms=None
)


def kept(count: int, group: str = "g") -> list[GroupRecord]:
    return [
        OffsetCommitRecord(group=group, topic="clicks", partition=index, value=KEPT)
        for index in range(count)
    ]


def deleted(count: int) -> list[GroupRecord]:
    return [tombstone("g", TopicPartition("clicks", index)) for index in range(count)]


def test_records_of_an_event_are_one_batch() -> None:
    producer = Producer(ProducerId(7), ProducerEpoch(3))
    effects = GroupEffects(records=[*kept(5), *deleted(5)], producer=producer, requested=True)

    (batch,) = iter_batches(build_group_batches(effects, 1, MAX_BYTES))

    assert len(list(iter_records(batch))) == 10
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch) == (7, 3)


def test_a_request_keeps_exactly_what_fits() -> None:
    effects = GroupEffects(records=kept(20), requested=True)
    size = len(build_group_batches(effects, 1, MAX_BYTES))

    assert len(build_group_batches(effects, 1, size)) == size
    with pytest.raises(BatchTooLarge, match=r"max\.message\.bytes"):
        build_group_batches(effects, 1, size - 1)


def test_a_long_id_that_every_record_repeats_is_not_repeated_in_memory() -> None:
    """A request of a megabyte could ask for 100,000 records of 32 KB."""
    effects = GroupEffects(records=kept(100_000, group="g" * 32_000), requested=True)

    with pytest.raises(BatchTooLarge):
        build_group_batches(effects, 1, MAX_BYTES)


def test_what_only_deletes_is_cut_into_batches() -> None:
    effects = GroupEffects(records=deleted(100), requested=True)

    batches = list(iter_batches(build_group_batches(effects, 1, 1_000)))

    assert len(batches) > 1
    assert all(len(batch.buffer[batch.position : batch.end]) <= 1_000 for batch in batches)
    keys = [record.key for batch in batches for record in iter_records(batch)]
    (whole,) = iter_batches(build_group_batches(effects, 1, MAX_BYTES))
    assert keys == [record.key for record in iter_records(whole)]


def test_what_a_timer_decides_is_written_whole() -> None:
    effects = GroupEffects(records=kept(100), requested=False)

    assert len(list(iter_batches(build_group_batches(effects, 1, 1_000)))) == 1


def test_what_is_derived_does_not_count_and_is_cut() -> None:
    matched = [
        RegexRecord(
            group="g",
            regex=f"{index}.*",
            value=ResolvedRegex(topics=("x" * 200,), version=1, timestamp_ms=0),
        )
        for index in range(50)
    ]
    epoch = GroupEpochRecord(group="g", value=GroupEpoch(epoch=2, metadata_hash=0))
    effects = GroupEffects(records=[*matched, epoch], requested=True)

    batches = list(iter_batches(build_group_batches(effects, 1, 1_000)))

    assert all(len(batch.buffer[batch.position : batch.end]) <= 1_000 for batch in batches)
    assert sum(len(list(iter_records(batch))) for batch in batches) == 51


def test_what_is_derived_leaves_what_is_asked_for_its_limit() -> None:
    epoch = GroupEpochRecord(group="g", value=GroupEpoch(epoch=2, metadata_hash=0))
    effects = GroupEffects(records=[*kept(100), epoch], requested=True)

    with pytest.raises(BatchTooLarge):
        build_group_batches(effects, 1, 1_000)


def run(data: Path, scenario: Callable[[Broker], Awaitable[None]]) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0", "message.max.bytes": "10000"}

    async def main() -> None:
        async with local_broker(data, settings=settings) as server:
            await server.broker.controller.create_topics([TopicToCreate(name="clicks")])
            await scenario(server.broker)

    asyncio.run(main())


async def commit(broker: Broker, partitions: range) -> CommitReply:
    topic = broker.topics.by_name("clicks")
    assert topic is not None
    wanted = OffsetToCommit(offset=5, topic_id=topic.topic_id)
    offsets = {TopicPartition("clicks", index): wanted for index in partitions}
    return await broker.groups.handle(CommitRequest(group_id="g", offsets=offsets))


async def join(broker: Broker, metadata: bytes, **more: Any) -> JoinReply:
    return await broker.groups.handle(
        JoinRequest(
            group_id="g",
            member_id="",
            client_id="me",
            protocol_type="consumer",
            protocols=(MemberProtocol("range", metadata),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            require_member_id=False,
            **more,
        )
    )


async def sync(broker: Broker, member: JoinReply) -> SyncReply:
    return await broker.groups.handle(
        SyncRequest(
            group_id="g",
            member_id=member.member_id,
            generation=member.generation,
            assignments={member.member_id: b""},
        )
    )


def log_end(broker: Broker) -> int:
    topic = broker.topics.by_name(CONSUMER_OFFSETS)
    assert topic is not None
    return sum(partition.log.log_end_offset for partition in topic.partitions)


async def reload(broker: Broker) -> None:
    topic = broker.topics.by_name(CONSUMER_OFFSETS)
    assert topic is not None
    for partition in topic.partitions:
        broker.groups.unload(partition.name.partition)
    broker.groups.load(topic.partitions)
    async with asyncio.timeout(60):
        while any(shard.loading for shard in broker.groups._shards.values()):
            await asyncio.sleep(0.001)


async def beat(broker: Broker, member: int, epoch: int = 0) -> ConsumerHeartbeatReply:
    return await broker.groups.handle(
        ConsumerHeartbeat(
            group_id="g",
            member_id=f"m{member}",
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(),
            subscribed_topic_regex=f"(clicks|many.*){{1,{member + 1}}}",
            owned=frozenset(),
        )
    )


def test_a_group_by_regular_expression_goes_on_however_many_topics_match(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        epochs = [(await beat(broker, member)).member_epoch for member in range(4)]
        await broker.controller.create_topics(
            [TopicToCreate(name=f"many-{index}-{'x' * 230}") for index in range(30)]
        )
        before = log_end(broker)
        replies = [await beat(broker, member, epochs[member]) for member in range(4)]
        await reload(broker)
        again = [await beat(broker, member, replies[member].member_epoch) for member in range(4)]
        left = await beat(broker, 0, LEAVE_EPOCH)

        assert log_end(broker) > before
        assert [each.error for each in [*replies, *again, left]] == [None] * 9
        assert sum(len(each.assignment or ()) for each in again) == 31

    run(tmp_path, scenario)


def test_a_group_that_is_too_large_for_the_topic_is_refused(tmp_path: Path) -> None:
    """Its whole record was written again for each small JoinGroup of a static member."""

    async def scenario(broker: Broker) -> None:
        member = await join(broker, b"x" * 20_000, instance_id="i")
        before = log_end(broker)

        assert (await sync(broker, member)).error is GroupError.UNKNOWN_SERVER_ERROR
        assert log_end(broker) == before

    run(tmp_path, scenario)


def test_a_commit_that_is_too_large_for_the_topic_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        with capture_logs() as lines:
            refused = await commit(broker, range(300))

        assert refused.error is GroupError.INVALID_COMMIT_OFFSET_SIZE
        assert [each["group"] for each in lines if each["event"] == "group_too_large"] == ["g"]
        assert (await commit(broker, range(50))).error is None

    run(tmp_path, scenario)


def test_a_group_with_more_offsets_than_a_batch_holds_can_be_deleted(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        for start in range(0, 300, 50):
            assert (await commit(broker, range(start, start + 50))).error is None
        deleted = await broker.groups.handle(DeleteGroupRequest(group_id="g"))
        await reload(broker)

        assert deleted.error is None
        assert log_end(broker) == 600
        assert [registry.group_ids() for registry in broker.groups.registries()] == [[]] * 4

    run(tmp_path, scenario)
