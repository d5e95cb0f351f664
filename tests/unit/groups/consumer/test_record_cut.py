"""Records of heartbeats that are cut into several batches, and crashes between any two of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.message import LEAVE_STATIC_EPOCH, ConsumerHeartbeat
from headrace.groups.consumer.record_cut import cut
from headrace.groups.consumer.state import ConsumerState
from headrace.groups.effect import GroupEffects
from headrace.groups.record import (
    CurrentAssignmentRecord,
    GroupEpoch,
    GroupEpochRecord,
    GroupMetadataRecord,
    GroupRecord,
    RegexRecord,
    ResolvedRegex,
    TargetEpochRecord,
    TargetMemberRecord,
)
from headrace.groups.record_codec import encode
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicImage
from testkit.simulation.group_shard import GroupShard, LoggedMarker, LoggedRecord

Log = list[LoggedRecord | LoggedMarker]

MATCHED = RegexRecord(
    group="g", regex="c.*", value=ResolvedRegex(topics=("clicks",), version=1, timestamp_ms=0)
)
DROPPED = RegexRecord(group="g", regex="v.*", value=None)
EPOCH = GroupEpochRecord(group="g", value=GroupEpoch(epoch=2, metadata_hash=0))
TARGET = TargetMemberRecord(group="g", member_id="a", value=frozenset())
TARGET_EPOCH = TargetEpochRecord(group="g", value=2)
CURRENT = CurrentAssignmentRecord(group="g", member_id="b", value=None)


def test_matches_come_first_and_the_targets_epoch_last() -> None:
    found = cut([DROPPED, MATCHED, EPOCH, TARGET, TARGET, TARGET_EPOCH, CURRENT])

    assert found == ([MATCHED], [DROPPED, EPOCH], [TARGET, TARGET], [TARGET_EPOCH, CURRENT])


def test_an_expression_that_is_dropped_and_matched_keeps_its_order() -> None:
    found = cut([replace(MATCHED, value=None), MATCHED, EPOCH])

    assert found == ([], [replace(MATCHED, value=None), MATCHED, EPOCH], [], [])


def test_a_group_that_was_classic_has_no_match_before_it_passes() -> None:
    records = [GroupMetadataRecord(group="g", value=None), MATCHED, EPOCH]

    assert cut(records) == ([], records, [], [])


def test_targets_that_are_not_computed_anew_are_not_cut() -> None:
    assert cut([EPOCH, TARGET, CURRENT]) == ([], [EPOCH, TARGET, CURRENT], [], [])


@dataclass
class Client:
    """A member as its own process sees it."""

    member_id: str
    regex: str
    instance_id: str | None = None
    epoch: int = 0
    owned: frozenset[TopicIdPartition] = frozenset()

    def heartbeat(self) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(
            group_id="g",
            member_id=self.member_id,
            instance_id=self.instance_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(),
            subscribed_topic_regex=self.regex,
            owned=self.owned,
        )

    def beat(self, shard: GroupShard) -> None:
        reply = shard.ask(self.heartbeat())
        if reply.error is not None:
            assert self.epoch > 0, reply
            self.epoch, self.owned = 0, frozenset()
            return
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.owned = reply.assignment


@dataclass
class Crash:
    """What a crash between two batches leaves: a log, and members that were not answered."""

    log: Log
    topics: TopicImage
    clients: list[Client]


@dataclass
class Scene:
    """A shard that writes every record that may stand alone as a batch of its own."""

    shard: GroupShard
    clients: list[Client] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shard.run = self.run  # type: ignore[method-assign]

    def run(self, effects: GroupEffects) -> None:
        for batch in batches(effects.records):
            self.shard.log += [LoggedRecord(*encode(record), None) for record in batch]
            clients = [replace(each) for each in self.clients]
            self.crashes.append(Crash(list(self.shard.log), self.shard.topics.image, clients))
        if effects.records:
            self.shard.registry.adopt()
        for each in effects.replies:
            self.shard.answers.setdefault(each.token, []).append(each.reply)


def batches(records: Sequence[GroupRecord]) -> Iterator[Sequence[GroupRecord]]:
    matches, whole, targets, end = cut(records)
    yield from ([each] for each in matches)
    yield whole
    yield from ([each] for each in targets)
    yield end


def settle(shard: GroupShard, clients: list[Client]) -> None:
    for _ in range(10):
        for client in clients:
            client.beat(shard)


def image(version: int, count: int) -> TopicImage:
    names = ["clicks", "views", "visits", "carts"][:count]
    topics = (GroupTopic(name, UUID(int=at), 4) for at, name in enumerate(names, 1))
    return TopicImage(version, tuple(topics))


def assert_whole(shard: GroupShard, clients: list[Client]) -> None:
    """Every partition that matches has one owner, and no other member is left in the group."""
    group = shard.group("g")
    assert isinstance(group, ConsumerGroup)
    held = [each for client in clients for each in client.owned]
    wanted = {
        TopicIdPartition(topic.topic_id, index)
        for name in group.subscribed_topics()
        if (topic := shard.topics.by_name(name)) is not None
        for index in range(topic.partition_count)
    }
    ids = {client.member_id for client in clients}
    assert group.state is ConsumerState.STABLE
    assert (len(held), set(held)) == (len(wanted), wanted)
    assert (set(group.image.members), set(group.image.current)) == (ids, ids)
    assert set(group.image.target) == ids
    assert set(group.image.regexes) == {client.regex for client in clients}
    assert all(
        group.members[each.member_id].subscribed_topic_regex == each.regex for each in clients
    )


def test_a_crash_between_any_two_batches_does_no_harm() -> None:
    scene = Scene(GroupShard(topics=image(1, 2)))
    shard, clients = scene.shard, scene.clients
    for client in (Client("a", "c.*"), Client("b", "v.*"), Client("s", ".*", "i")):
        clients.append(client)
        settle(shard, clients)
    shard.topics.image = image(2, 4)
    settle(shard, clients)
    clients[0].regex = "[cv].*"  # the same topics in all: only this member reads others
    settle(shard, clients)
    shard.ask(replace(clients[2].heartbeat(), member_epoch=LEAVE_STATIC_EPOCH))
    clients[2] = Client("t", "v.*|c.*", "i")
    settle(shard, clients)
    assert_whole(shard, clients)

    assert len(scene.crashes) > 50
    for crash in scene.crashes:
        shard.log, shard.topics.image = crash.log, crash.topics
        again = shard.reopened()
        settle(again, crash.clients)
        again.advance(1000)
        assert_whole(again, crash.clients)
