"""A consumer of the classic protocol that follows it to the letter, against a `GroupShard`.

It is eager (gives up everything before it joins) or cooperative (keeps what it has, gives up what
it was not given again, and joins once more), and computes the assignment when it is the leader.
"""

import struct
from collections.abc import Iterable, Mapping

from headrace.groups.classic.message import (
    HeartbeatRequest,
    JoinedMember,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headrace.groups.classic_subscription import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from headrace.groups.effect import Token
from headrace.groups.error import GroupError
from headrace.groups.record import MemberProtocol
from headrace.groups.topic import GroupTopic
from headrace.model.ids import TopicPartition
from testkit.simulation.group_shard import GroupShard

SESSION_MS = 10_000
REBALANCE_MS = 20_000


def subscription_blob(topics: Iterable[str], owned: Iterable[TopicPartition] = ()) -> bytes:
    """Return a ConsumerProtocolSubscription of version 1."""
    names = sorted(topics)
    head = struct.pack(">hi", 1, len(names))
    head += b"".join(struct.pack(">h", len(name)) + name.encode() for name in names)
    # The owned partitions are written as an assignment has them, between version and user data.
    return head + struct.pack(">i", -1) + write_assignment(1, owned)[2:-4]


def deal_out(members: Iterable[JoinedMember], topics: Iterable[GroupTopic]) -> Mapping[str, bytes]:
    """Deal out the partitions in turn, as a leader; one that another member still owns waits."""
    wanted = {}
    owner: dict[TopicPartition, str] = {}
    for member in members:
        subscription = read_subscription(member.metadata)
        assert subscription is not None
        wanted[member.member_id] = subscription.topics
        owner.update(dict.fromkeys(subscription.owned, member.member_id))
    shares: dict[str, set[TopicPartition]] = {member_id: set() for member_id in wanted}
    for topic in topics:
        readers = sorted(id_ for id_, names in wanted.items() if topic.name in names)
        for number in range(topic.partition_count if readers else 0):
            each = TopicPartition(topic.name, number)
            receiver = readers[number % len(readers)]
            if owner.get(each, receiver) == receiver:
                shares[receiver].add(each)
    return {member_id: write_assignment(1, share) for member_id, share in shares.items()}


class ClassicConsumer:
    """One consumer.

    Attributes:
        owned: what the application reads at this moment.
    """

    def __init__(self, name: str, topics: Iterable[str], *, cooperative: bool) -> None:
        self.name = name
        self.topics = tuple(topics)
        self.cooperative = cooperative
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[TopicPartition] = frozenset()
        self._must_join = True
        self._joining: Token | None = None
        self._syncing: Token | None = None

    @property
    def settled(self) -> bool:
        """Whether it has its assignment and nothing to do but heartbeats."""
        return not self._must_join and self._joining is None and self._syncing is None

    def step(self, shard: GroupShard, *, lose_answer: bool = False) -> None:
        """Send the next request, or read the answer that has come."""
        if self._joining is not None:
            self._read_join(shard)
        elif self._syncing is not None:
            self._read_sync(shard)
        elif self._must_join:
            self._join(shard)
        else:
            self._beat(shard)
        if lose_answer and (self._joining or self._syncing) is not None:
            self._joining = self._syncing = None
            self._must_join = True

    def leave(self, shard: GroupShard) -> None:
        self.owned = frozenset()
        if self.member_id:
            members = (LeavingMember(member_id=self.member_id),)
            shard.ask(LeaveRequest(group_id="g", members=members))

    def forget_requests(self) -> None:
        """Begin again after the coordinator has lost what was parked."""
        if not self.settled:
            self._joining = self._syncing = None
            self._must_join = True

    # Joining.

    def _join(self, shard: GroupShard) -> None:
        if not self.cooperative:
            self.owned = frozenset()
        self._must_join = False
        name = "cooperative" if self.cooperative else "eager"
        self._joining = shard.send(
            JoinRequest(
                group_id="g",
                member_id=self.member_id,
                client_id=self.name,
                protocol_type="consumer",
                protocols=(MemberProtocol(name, subscription_blob(self.topics, self.owned)),),
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
            )
        )

    def _read_join(self, shard: GroupShard) -> None:
        assert self._joining is not None
        if shard.is_parked(self._joining):
            return
        reply: JoinReply = shard.answer(self._joining)
        self._joining = None
        if reply.error is GroupError.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self._must_join = True
        elif reply.error is not None:
            self._failed(reply.error)
        else:
            self.member_id, self.generation = reply.member_id, reply.generation
            leads = reply.leader == self.member_id
            assignments = deal_out(reply.members, shard.topics.image.topics) if leads else {}
            self._syncing = shard.send(
                SyncRequest(
                    group_id="g",
                    member_id=self.member_id,
                    generation=self.generation,
                    protocol_type=reply.protocol_type,
                    protocol=reply.protocol,
                    assignments=assignments,
                )
            )

    def _read_sync(self, shard: GroupShard) -> None:
        assert self._syncing is not None
        if shard.is_parked(self._syncing):
            return
        reply: SyncReply = shard.answer(self._syncing)
        self._syncing = None
        if reply.error is not None:
            self._failed(reply.error)
            return
        assignment = read_assignment(reply.assignment)
        assert assignment is not None
        self._must_join = self.cooperative and not self.owned <= assignment.partitions
        self.owned = assignment.partitions

    def _beat(self, shard: GroupShard) -> None:
        request = HeartbeatRequest(
            group_id="g", member_id=self.member_id, generation=self.generation
        )
        error = shard.ask(request).error
        if error is not None:
            self._failed(error)

    def _failed(self, error: GroupError) -> None:
        self._must_join = True
        if error is GroupError.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error in (GroupError.UNKNOWN_MEMBER_ID, GroupError.ILLEGAL_GENERATION):
            self.generation = -1
            self.owned = frozenset()
        else:
            retriable = (GroupError.REBALANCE_IN_PROGRESS, GroupError.COORDINATOR_NOT_AVAILABLE)
            assert error in retriable, error
