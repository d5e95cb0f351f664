"""Random histories of a KIP-848 group whose members follow the protocol, lose answers and die.

The promise that matters most is checked at the members, not at the coordinator: no partition is
ever held by two of them that are both still part of the group.
"""

import random
from collections import Counter
from uuid import UUID

import pytest

from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.message import ConsumerHeartbeat, ConsumerHeartbeatReply
from headrace.groups.consumer.state import ConsumerState
from headrace.groups.error import GroupError
from headrace.groups.record import MemberState
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicImage
from testkit.simulation.group_shard import GroupShard

HISTORIES = 120
STEPS = 120
NAMES = ("alpha", "beta", "gamma")


class Member:
    """A consumer: takes what it is given, gives up slowly, joins again when fenced."""

    def __init__(self, number: int, life: int, chance: random.Random) -> None:
        self.number = number
        self.life = life
        self.chance = chance
        self.member_id = f"m{number}-{life}"
        self.instance_id = f"i{number}" if number == 0 else None
        self.diligent = False
        self.epoch = 0
        self.owned: frozenset[TopicIdPartition] = frozenset()
        self.assigned: frozenset[TopicIdPartition] = frozenset()
        self.names = tuple(chance.sample(NAMES, chance.randint(1, 3)))
        self.regex = chance.choice([None, None, "[ab].*", ".*a"])

    def step(self, shard: GroupShard, *, lose_answer: bool = False) -> None:
        joins = self.epoch == 0
        if joins:
            self.owned = self.assigned = frozenset()
        full = joins or self.chance.random() < 0.2
        reports = full or self.diligent or self.chance.random() < 0.5
        request = ConsumerHeartbeat(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=20_000 if full else -1,
            subscribed_topic_names=self.names if full else None,
            subscribed_topic_regex=(self.regex or "") if full else None,
            owned=self.owned if reports else None,
            server_assignor=self.chance.choice([None, "uniform", "range"]) if joins else None,
        )
        reply = shard.ask(request)
        if not lose_answer:
            self.read(reply)

    def read(self, reply: ConsumerHeartbeatReply) -> None:
        if reply.error in (GroupError.FENCED_MEMBER_EPOCH, GroupError.UNKNOWN_MEMBER_ID):
            self.epoch = 0
            self.owned = self.assigned = frozenset()
        elif reply.error is None:
            assert reply.member_epoch >= self.epoch
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                # Taking is at once; giving up takes until the application has let go.
                self.assigned = reply.assignment
                self.owned |= reply.assignment

    def let_go(self) -> None:
        self.owned &= self.assigned

    def leave(self, shard: GroupShard) -> None:
        request = ConsumerHeartbeat(
            group_id="g",
            member_id=self.member_id,
            member_epoch=-2 if self.instance_id else -1,
            instance_id=self.instance_id,
        )
        shard.ask(request)


def image(version: int, chance: random.Random) -> TopicImage:
    topics = [
        GroupTopic(name, UUID(int=number + 1), chance.randint(1, 6))
        for number, name in enumerate(NAMES)
        if chance.random() < 0.8
    ]
    return TopicImage(version, tuple(topics))


def group_of(shard: GroupShard) -> ConsumerGroup | None:
    group = shard.group("g")
    assert group is None or isinstance(group, ConsumerGroup)
    return group


def check(shard: GroupShard, members: list[Member], epochs: list[int]) -> None:
    group = group_of(shard)
    assert all(len(answers) == 1 for answers in shard.answers.values())
    if group is None:
        return
    image = group.image
    assert image.epoch >= epochs[-1] and image.epoch >= image.target_epoch
    epochs.append(image.epoch)
    assert image.current.keys() <= image.members.keys()
    assert image.target.keys() <= image.members.keys()
    held = Counter(
        partition
        for current in image.current.values()
        for partition in current.assigned | current.pending_revocation
    )
    assert all(count == 1 for count in held.values())
    for current in image.current.values():
        assert current.assigned.isdisjoint(current.pending_revocation)
        assert bool(current.pending_revocation) <= (
            current.state is MemberState.UNREVOKED_PARTITIONS
        )
    planned = Counter(partition for share in image.target.values() for partition in share)
    assert all(count == 1 for count in planned.values())
    alive = [member for member in members if member.member_id in image.current and member.epoch > 0]
    owned = Counter(partition for member in alive for partition in member.owned)
    assert all(count == 1 for count in owned.values())
    reloaded = shard.durable_group("g")
    assert isinstance(reloaded, ConsumerGroup)
    assert vars(reloaded.image) == vars(image)


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_keep_every_promise(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(HISTORIES // 6):
        shard = GroupShard(topics=image(1, chance))
        members = [Member(number, 0, chance) for number in range(chance.randint(1, 5))]
        epochs = [0]
        for step in range(STEPS):
            shard.fail_appends = chance.random() < 0.05
            member = chance.choice(members)
            dice = chance.random()
            if dice < 0.15:
                shard.advance(chance.choice([100, 5_000, 21_000, 46_000]))
            elif dice < 0.20:
                shard.topics.image = image(step + 2, chance)
            elif dice < 0.25:
                member.leave(shard)
                members[member.number] = Member(member.number, step, chance)
            elif dice < 0.28:
                members[member.number] = Member(member.number, step, chance)
            elif dice < 0.30:
                shard = shard.reopened()
            elif dice < 0.35:
                member.names = tuple(chance.sample(NAMES, chance.randint(1, 3)))
            elif dice < 0.50:
                member.let_go()
            else:
                member.step(shard, lose_answer=chance.random() < 0.05)
            check(shard, members, epochs)


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_assigned_when_the_members_just_go_on(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        shard = GroupShard(topics=image(1, chance))
        members = [Member(number, 0, chance) for number in range(chance.randint(1, 5))]
        for step in range(40):
            chance.choice(members).step(shard)
            shard.topics.image = image(step + 2, chance)
            shard.advance(chance.choice([100, 5_000]))

        for _ in range(12):
            for member in members:
                member.diligent = True
                member.let_go()
                member.step(shard)
            shard.advance(5_000)

        group = group_of(shard)
        assert group is not None
        assert group.state is ConsumerState.STABLE
        held = {partition for member in members for partition in member.owned}
        assert sum(len(member.owned) for member in members) == len(held)
        for topic in shard.topics.image.topics:
            wanted = topic.name in group.subscribed_topics()
            expected = {
                TopicIdPartition(topic.topic_id, number)
                for number in range(topic.partition_count if wanted else 0)
            }
            assert {item for item in held if item.topic_id == topic.topic_id} == expected
