"""Which client owns which partition of a simulated group, and that no two own the same one.

A client takes an assignment for confirmed when the reply that has it arrives. What must hold:

1. two members of one generation (epoch) own nothing together, however long ago they were heard of;
2. two members that both are sure of their membership own nothing together, of whichever
   generations they are. A member is sure for a session after it has sent a request that the
   coordinator answered: so long it may not be removed.

Numbers of generations begin again with 1 when a group was empty and changed its protocol. So every
reply has the *life* of the group that it was given in. A broker that does not know yet that it is
not the coordinator any more answers with the life that it knows, and makes no member sure.

A member of the classic protocol knows partitions by name, and a topic that was deleted and created
again is another one: its reply has the id of the topic that the coordinator knew.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from headrace.broker.config.internal_topic import CONSUMER_OFFSETS
from headrace.cluster.entity import decode_entity
from headrace.cluster.topic import NO_LEADER, TopicRecord
from headrace.groups.classic.message import JoinReply
from headrace.groups.classic_subscription import read_assignment
from headrace.groups.consumer.message import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from headrace.groups.registry import GroupRegistry
from headrace.groups.request import GroupReply, GroupRequest
from headrace.groups.topic import TopicIdPartition
from headrace.model.ids import BrokerId
from testkit.simulation.coordinator_call import coordinator_of
from testkit.simulation.memory_store import Ensemble
from testkit.simulation.seam_broker import TOPIC, SeamBroker
from testkit.simulation.seam_client import ClientHost

ReplyT = TypeVar("ReplyT", bound=GroupReply)

GROUP = "readers"
SESSION_MS = 600
REBALANCE_MS = 900
"""Longer than a session: a member that is removed because it is late is not sure any more."""

_TOPIC_NODE = f"/{TopicRecord.KIND}/{CONSUMER_OFFSETS}"


class OwnershipHost(ClientHost, Protocol):
    """What the check needs of the simulator."""

    ensemble: Ensemble


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[ReplyT]):
    """A reply, and what the simulator knows besides.

    Attributes:
        topic_id: of the topic while the request was handled; None when it changed meanwhile.
        life: how many groups of this name there have been.
        sure_until_ms: how long its receiver is sure of its membership, if it is no refusal.
    """

    reply: ReplyT
    topic_id: UUID | None
    life: int
    sure_until_ms: int


@dataclass(slots=True, kw_only=True)
class Holding:
    """What one client owns.

    Attributes:
        partitions: by number, with the topic's id where it is known.
    """

    name: str
    classic: bool
    member_id: str = ""
    generation: int = -1
    life: int = -1
    sure_until_ms: int = -1
    partitions: Mapping[int, UUID | None] = field(default_factory=dict)

    def shares_with(self, other: "Holding", *, by_name: bool) -> bool:
        """Return whether both own a partition.

        Args:
            by_name: members of the classic protocol that own the same name own the same.
        """
        by_name = by_name and self.classic and other.classic
        return any(
            number in other.partitions
            and (by_name or (topic_id is not None and topic_id == other.partitions[number]))
            for number, topic_id in self.partitions.items()
        )


class GroupOwnership:
    """All clients of one group.

    Attributes:
        passed: how often the group passed to each protocol with members in it.
    """

    def __init__(self, host: OwnershipHost) -> None:
        self.passed: Counter[str] = Counter()
        self._host = host
        self._holdings: dict[str, Holding] = {}
        self._life = 0
        self._lives: dict[BrokerId, int] = {}
        self._kind: tuple[int, str] | None = None

    # -- requests

    async def handle(
        self, peer: SeamBroker, request: GroupRequest[ReplyT], sent_ms: int
    ) -> Answer[ReplyT]:
        """Let a broker handle a request."""
        before = _topic_id(peer)
        reply = await peer.groups.handle(request)
        leads = self._leads(peer)
        if leads:
            if _begins_group(request, reply):
                self._life += 1
            self._lives[peer.broker_id] = self._life
            self._count_passages(reply)
        return Answer(
            reply=reply,
            topic_id=before if before == _topic_id(peer) else None,
            life=self._lives.get(peer.broker_id, self._life),
            sure_until_ms=sent_ms + SESSION_MS if leads else -1,
        )

    def _leads(self, peer: SeamBroker) -> bool:
        """Return whether a broker is the coordinator, as the cluster's store has it."""
        node = self._host.ensemble.nodes.get(_TOPIC_NODE)
        record = None if node is None else decode_entity(node)
        leader = record.partitions[0].leader if isinstance(record, TopicRecord) else NO_LEADER
        return leader == peer.broker_id

    def _count_passages(self, reply: GroupReply) -> None:
        kind = _kind_of(reply)
        if kind is None:
            return
        if self._kind == (self._life, "classic" if kind == "consumer" else "consumer"):
            self.passed[kind] += 1
        self._kind = self._life, kind

    # -- what the clients own

    def join(self, holding: Holding) -> None:
        self._holdings[holding.name] = holding

    def forget(self, holding: Holding) -> None:
        self._holdings.pop(holding.name, None)

    def confirm(
        self,
        holding: Holding,
        answer: Answer[ReplyT],
        generation: int,
        partitions: Mapping[int, UUID | None],
    ) -> None:
        """Note what a reply gave to a client, and check the rules."""
        if (generation, partitions) != (holding.generation, holding.partitions):
            owned = ", ".join(str(each) for each in sorted(partitions)) or "nothing"
            self._host.say(holding.name, f"owns {owned} in generation {generation}")
        holding.generation, holding.life = generation, answer.life
        holding.partitions = partitions
        self.hears(holding, answer)

    def hears(self, holding: Holding, answer: Answer[ReplyT]) -> None:
        """Note that a client is a member as before, and check the rules."""
        holding.sure_until_ms = max(holding.sure_until_ms, answer.sure_until_ms)
        for other in self._holdings.values():
            if other is not holding:
                self._check(holding, other)

    def _check(self, one: Holding, other: Holding) -> None:
        now_ms = self._host.now_ms
        same = (one.life, one.generation) == (other.life, other.generation)
        if same and one.shares_with(other, by_name=True):
            self._host.fail(f"two members own a partition in one generation: {one}, {other}")
        sure = now_ms <= one.sure_until_ms and now_ms <= other.sure_until_ms
        if sure and one.shares_with(other, by_name=False):
            self._host.fail(f"two members own a partition, both sure of it: {one}, {other}")

    # -- the end

    def problem(self) -> str | None:
        """Return what is wrong with the group, once everything has come to its end."""
        coordinator = coordinator_of(self._host)
        if coordinator is None:
            return f"group {GROUP} has no coordinator"
        topic = coordinator.topics.by_name(TOPIC)
        assert topic is not None
        owners = Counter(each for held in self._holdings.values() for each in held.partitions)
        every = Counter(range(len(topic.partitions)))
        if owners != every:
            return f"members of group {GROUP} own {sorted(owners.elements())} of {sorted(every)}"
        for held in self._holdings.values():
            if not held.classic and set(held.partitions.values()) - {topic.topic_id}:
                return f"{held.name} owns partitions of a topic that was deleted"
        return self._disagreement(coordinator, topic.topic_id)

    def _disagreement(self, coordinator: SeamBroker, topic_id: UUID) -> str | None:
        """Return where the coordinator sees the group otherwise than its members do."""
        found: list[GroupRegistry] = []

        async def look() -> None:
            found.append(await coordinator.groups.registry(GROUP))

        coordinator.loop.run(lambda: coordinator.loop.create_task(look()))
        if not found:
            return f"group {GROUP} is not served"
        (listed,) = [each for each in found[0].list_groups() if each.group_id == GROUP] or [None]
        if listed is None or listed.state != "Stable":
            return f"group {GROUP} does not become stable: {listed}"
        classic = all(held.classic for held in self._holdings.values())
        if (listed.type == "classic") is not classic:
            return f"group {GROUP} has not passed to the other protocol: {listed}"
        known = _assigned(found[0], topic_id)
        owned = {held.member_id: set(held.partitions) for held in self._holdings.values()}
        return None if known == owned else f"the coordinator knows {known}, the members {owned}"


def _assigned(registry: GroupRegistry, topic_id: UUID) -> dict[str, set[int]]:
    """Return what the members of the group own as the coordinator sees it."""
    consumer = registry.describe_consumer(GROUP)
    if consumer is not None:
        return {
            each.member_id: {
                item.partition
                for item in each.assignment
                if item == TopicIdPartition(topic_id, item.partition)
            }
            for each in consumer.members
        }
    classic = registry.describe_classic(GROUP)
    known = {}
    for member in () if classic is None else classic.members:
        assignment = read_assignment(member.assignment)
        assert assignment is not None
        known[member.member_id] = {item.partition for item in assignment.partitions}
    return known


def _topic_id(peer: SeamBroker) -> UUID | None:
    topic = peer.topics.by_name(TOPIC)
    return None if topic is None else topic.topic_id


def _begins_group(request: GroupRequest[ReplyT], reply: GroupReply) -> bool:
    """Return whether a reply is the first of a group that was empty, or a repetition of it."""
    if reply.error is not None:
        return False
    if isinstance(reply, JoinReply):
        return reply.generation == 1 and reply.leader == reply.member_id
    joins = isinstance(request, ConsumerHeartbeat) and request.member_epoch == JOIN_EPOCH
    # A second member would have begun another epoch.
    return joins and isinstance(reply, ConsumerHeartbeatReply) and reply.member_epoch == 1


def _kind_of(reply: GroupReply) -> str | None:
    """Return which protocol the group has that a member has just joined, or goes on with."""
    if reply.error is not None:
        return None
    if isinstance(reply, JoinReply):
        # Only a classic group has a leader.
        return "classic" if reply.leader else "consumer"
    stays = isinstance(reply, ConsumerHeartbeatReply) and reply.member_epoch > 0
    return "consumer" if stays else None
