"""Random histories of a group whose members speak both protocols, lose answers, die and come back.

Two promises are checked at the members: no partition is ever held by two of them that both still
belong to the group, and an offset that was committed is the one that is fetched.
"""

import random
from collections import Counter
from uuid import UUID

import pytest

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.config import GroupConfig
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.message import ConsumerHeartbeat
from headrace.groups.error import GroupError
from headrace.groups.offset.message import CommitRequest, OffsetToCommit
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicImage
from headrace.model.ids import TopicPartition
from testkit.simulation.classic_consumer import ClassicConsumer
from testkit.simulation.group_shard import GroupShard

SEEDS = 6
HISTORIES = 10
STEPS = 150
TOPICS = {"alpha": 3, "beta": 4}
IDS = {name: UUID(int=number + 1) for number, name in enumerate(TOPICS)}
NAMES = {topic_id: name for name, topic_id in IDS.items()}


class NewConsumer:
    """A consumer of the KIP-848 protocol."""

    def __init__(self, name: str) -> None:
        self.member_id = name
        self.generation = 0
        self.owned: frozenset[TopicPartition] = frozenset()

    def step(self, shard: GroupShard, *, lose_answer: bool = False) -> None:
        joins = self.generation == 0
        reply = shard.ask(
            ConsumerHeartbeat(
                group_id="g",
                member_id=self.member_id,
                member_epoch=self.generation,
                rebalance_timeout_ms=20_000,
                subscribed_topic_names=tuple(TOPICS),
                owned=frozenset() if joins else frozenset(map(shard_partition, self.owned)),
            )
        )
        if lose_answer:
            return
        if reply.error in (GroupError.FENCED_MEMBER_EPOCH, GroupError.UNKNOWN_MEMBER_ID):
            self.generation, self.owned = 0, frozenset()
        elif reply.error is None:
            self.generation = reply.member_epoch
            if reply.assignment is not None:
                self.owned = frozenset(
                    TopicPartition(NAMES[each.topic_id], each.partition)
                    for each in reply.assignment
                )
        else:
            assert reply.error is GroupError.COORDINATOR_NOT_AVAILABLE, reply

    def leave(self, shard: GroupShard) -> None:
        self.owned = frozenset()
        shard.ask(ConsumerHeartbeat(group_id="g", member_id=self.member_id, member_epoch=-1))

    def forget_requests(self) -> None:
        pass


def shard_partition(where: TopicPartition) -> TopicIdPartition:
    return TopicIdPartition(IDS[where.topic], where.partition)


Member = ClassicConsumer | NewConsumer


class History:
    """One group and its members, driven by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        topics = tuple(GroupTopic(name, IDS[name], count) for name, count in TOPICS.items())
        config = GroupConfig(
            group_initial_rebalance_delay_ms=0,
            group_min_session_timeout_ms=1,
            group_consumer_session_timeout_ms=12_000,
        )
        self.shard = GroupShard(config, TopicImage(1, topics))
        self.cooperative = self.chance.random() < 0.5
        self.born = 0
        self.members: list[Member] = []
        self.committed: dict[TopicPartition, int] = {}
        self.kinds: set[type] = set()

    def add_member(self) -> None:
        self.born += 1
        name = f"m{self.born}"
        if self.chance.random() < 0.5:
            member: Member = ClassicConsumer(name, TOPICS, cooperative=self.cooperative)
        else:
            member = NewConsumer(name)
        self.members.append(member)

    def step(self) -> None:
        chance, shard = self.chance, self.shard
        shard.fail_appends = chance.random() < 0.04
        dice = chance.random()
        if not self.members or (dice < 0.05 and len(self.members) < 4):
            self.add_member()
            return
        member = chance.choice(self.members)
        if dice < 0.10:
            shard.advance(chance.choice([100, 3_000, 11_000]))
        elif dice < 0.13:
            self.members.remove(member)
            if chance.random() < 0.7:
                member.leave(shard)
        elif dice < 0.15:
            self.shard = shard.reopened(compacted=chance.random() < 0.5)
            assert durable(self.shard) == durable(shard)
            for each in self.members:
                each.forget_requests()
        elif dice < 0.25:
            self.commit(member)
        else:
            member.step(shard, lose_answer=chance.random() < 0.04)

    def commit(self, member: Member) -> None:
        where = TopicPartition(self.chance.choice(list(TOPICS)), self.chance.randrange(3))
        offset = self.chance.randrange(1_000)
        request = CommitRequest(
            group_id="g",
            member_id=member.member_id,
            generation=member.generation,
            offsets={where: OffsetToCommit(offset=offset)},
            knows_epochs=isinstance(member, NewConsumer),
        )
        if self.shard.ask(request).error is None:
            self.committed[where] = offset

    def check(self) -> None:
        group = self.shard.group("g")
        self.kinds.add(type(group))
        assert all(len(answers) == 1 for answers in self.shard.answers.values())
        if isinstance(group, ConsumerGroup):
            check_image(group, self.shard)
        in_group = {} if group is None else group.members
        alive = [each for each in self.members if each.member_id in in_group]
        owned = Counter(where for each in alive for where in each.owned)
        assert all(count == 1 for count in owned.values()), owned
        for where, offset in self.committed.items():
            assert self.shard.registry.fetch_offsets("g", [where])[where].offset == offset


def durable(shard: GroupShard) -> object:
    """Return what the log alone says about the group."""
    group = shard.durable_group("g")
    if isinstance(group, ConsumerGroup):
        return vars(group.image)
    return None if group is None else group.record()


def check_image(group: ConsumerGroup, shard: GroupShard) -> None:
    image = group.image
    held = Counter(
        each
        for current in image.current.values()
        for each in current.assigned | current.pending_revocation
    )
    assert all(count == 1 for count in held.values())
    assert any(metadata.classic is None for metadata in group.members.values()) or group.is_empty
    reloaded = shard.durable_group("g")
    assert isinstance(reloaded, ConsumerGroup)
    assert vars(reloaded.image) == vars(image)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_histories_keep_every_promise(seed: int) -> None:
    kinds: set[type] = set()
    for number in range(HISTORIES):
        history = History(seed * 1_000 + number)
        for _ in range(STEPS):
            history.step()
            history.check()
        kinds |= history.kinds
    assert {ClassicGroup, ConsumerGroup} <= kinds


@pytest.mark.parametrize("seed", range(SEEDS))
def test_everything_is_assigned_when_the_members_just_go_on(seed: int) -> None:
    for number in range(HISTORIES):
        history = History(seed * 1_000 + number)
        for _ in range(60):
            history.step()
        while not history.members:
            history.step()
        shard = history.shard
        shard.fail_appends = False
        for _ in range(40):
            for member in history.members:
                for _ in range(3):
                    member.step(shard)
                    history.check()
            shard.advance(2_000)

        every = [TopicPartition(name, n) for name, count in TOPICS.items() for n in range(count)]
        held = Counter(where for member in history.members for where in member.owned)
        assert held == Counter(every)
        new = any(isinstance(member, NewConsumer) for member in history.members)
        assert isinstance(shard.group("g"), ConsumerGroup if new else ClassicGroup)
