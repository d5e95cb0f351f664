"""A member of a simulated group, by either protocol, to the letter of it.

Both are clients of `GroupConsumer`, which finds the coordinator. A request that gets no answer is
sent again; what the member owns it gives up when the coordinator says that it is no member, or not
in this generation.
"""

from collections.abc import Mapping
from typing import NoReturn, Protocol, TypeVar
from uuid import UUID

from headrace.groups.classic.message import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headrace.groups.classic_subscription import read_assignment
from headrace.groups.consumer.message import JOIN_EPOCH, LEAVE_EPOCH, ConsumerHeartbeat
from headrace.groups.error import GroupError
from headrace.groups.record import MemberProtocol
from headrace.groups.request import GroupReply, GroupRequest
from headrace.groups.topic import GroupTopic, TopicIdPartition
from headrace.model.ids import TopicPartition
from testkit.simulation.classic_consumer import deal_out, subscription_blob
from testkit.simulation.group_ownership import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Answer,
    GroupOwnership,
    Holding,
)
from testkit.simulation.seam_broker import TOPIC

ReplyT = TypeVar("ReplyT", bound=GroupReply)

_PATIENCE_MS = 300
_PARKED_MS = REBALANCE_MS + _PATIENCE_MS

_NO_COORDINATOR = (
    GroupError.COORDINATOR_LOAD_IN_PROGRESS,
    GroupError.COORDINATOR_NOT_AVAILABLE,
    GroupError.NOT_COORDINATOR,
)


class MemberHost(Protocol):
    """What a member needs of its client."""

    group: GroupOwnership
    cooperative: bool

    async def ask(
        self, request: GroupRequest[ReplyT], patience_ms: int
    ) -> Answer[ReplyT] | None: ...
    def topics(self) -> tuple[GroupTopic, ...] | None:
        """Return the topic as some broker knows it; None when no broker answers."""

    def fail(self, what: str) -> NoReturn: ...


class ProtocolMember(Protocol):
    """A member of either protocol."""

    async def step(self) -> None:
        """Do what is to be done next: join, or send a heartbeat."""

    async def leave(self) -> None: ...


class ConsumerProtocolMember:
    """A member of the consumer protocol (KIP-848).

    What it must give up it gives up before it says so, in its next heartbeat. After a lost answer
    it says everything again.
    """

    def __init__(self, host: MemberHost, holding: Holding) -> None:
        self._host = host
        self._holding = holding
        self._epoch = JOIN_EPOCH
        self._assigned: frozenset[TopicIdPartition] = frozenset()
        self._reported: frozenset[TopicIdPartition] | None = None
        holding.member_id = holding.name

    async def step(self) -> None:
        holding = self._holding
        holding.partitions = _by_number(self._assigned)
        joins = self._epoch == JOIN_EPOCH
        full = joins or self._reported is None
        owned = self._assigned if full or self._reported != self._assigned else None
        answer = await self._host.ask(
            ConsumerHeartbeat(
                group_id=GROUP,
                member_id=holding.member_id,
                member_epoch=self._epoch,
                rebalance_timeout_ms=REBALANCE_MS if full else -1,
                subscribed_topic_names=(TOPIC,) if full else None,
                owned=owned,
            ),
            _PATIENCE_MS,
        )
        if answer is None or answer.reply.error in _NO_COORDINATOR:
            self._reported = None
            return
        reply = answer.reply
        if reply.error in (GroupError.UNKNOWN_MEMBER_ID, GroupError.FENCED_MEMBER_EPOCH):
            self._epoch, self._reported = JOIN_EPOCH, None
            self._assigned, holding.partitions = frozenset(), {}
            return
        if reply.error is not None:
            self._host.fail(f"{holding.name} is refused: {reply}")
        self._reported = self._assigned if owned is None else owned
        self._epoch = reply.member_epoch
        if reply.assignment is not None:
            self._assigned = reply.assignment
        # It still owns what it has not given up yet.
        partitions = {**holding.partitions, **_by_number(self._assigned)}
        self._host.group.confirm(holding, answer, self._epoch, partitions)

    async def leave(self) -> None:
        request = ConsumerHeartbeat(
            group_id=GROUP, member_id=self._holding.member_id, member_epoch=LEAVE_EPOCH
        )
        await self._host.ask(request, _PATIENCE_MS)


def _by_number(partitions: frozenset[TopicIdPartition]) -> Mapping[int, UUID]:
    return {each.partition: each.topic_id for each in partitions}


class ClassicProtocolMember:
    """A member of the classic protocol, eager or cooperative; as a leader it assigns partitions.

    A leader joins again when the topic is not as it was when it assigned its partitions.
    """

    def __init__(self, host: MemberHost, holding: Holding) -> None:
        self._host = host
        self._holding = holding
        self._generation = -1
        self._must_join = True
        self._assigned_of: tuple[GroupTopic, ...] | None = None

    async def step(self) -> None:
        if not self._must_join and self._assigned_of is not None:
            topics = self._host.topics()
            self._must_join = topics is not None and _sizes(topics) != _sizes(self._assigned_of)
        if self._must_join:
            await self._join()
        else:
            await self._beat()

    async def leave(self) -> None:
        member_id = self._holding.member_id
        if member_id:
            members = (LeavingMember(member_id=member_id),)
            await self._host.ask(LeaveRequest(group_id=GROUP, members=members), _PATIENCE_MS)

    async def _join(self) -> None:
        host, holding = self._host, self._holding
        if not host.cooperative:
            holding.partitions = {}
        owned = [TopicPartition(TOPIC, number) for number in holding.partitions]
        name = "cooperative-sticky" if host.cooperative else "range"
        answer = await host.ask(
            JoinRequest(
                group_id=GROUP,
                member_id=holding.member_id,
                client_id=holding.name,
                protocol_type="consumer",
                protocols=(MemberProtocol(name, subscription_blob((TOPIC,), owned)),),
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
            ),
            _PARKED_MS,
        )
        if answer is None:
            return
        reply = answer.reply
        if reply.error is GroupError.MEMBER_ID_REQUIRED:
            holding.member_id = reply.member_id
            await self._join()
        elif reply.error is not None:
            self._failed(reply)
        else:
            holding.member_id, self._generation = reply.member_id, reply.generation
            host.group.hears(holding, answer)
            await self._sync(reply)

    async def _sync(self, joined: JoinReply) -> None:
        host, holding = self._host, self._holding
        self._assigned_of, assignments = None, {}
        if joined.leader == holding.member_id:
            self._assigned_of = host.topics() or ()
            assignments = dict(deal_out(joined.members, self._assigned_of))
        answer = await host.ask(
            SyncRequest(
                group_id=GROUP,
                member_id=holding.member_id,
                generation=self._generation,
                protocol_type=joined.protocol_type,
                protocol=joined.protocol,
                assignments=assignments,
            ),
            _PARKED_MS,
        )
        if answer is None:
            return
        reply: SyncReply = answer.reply
        if reply.error is not None:
            self._failed(reply)
            return
        assignment = read_assignment(reply.assignment)
        assert assignment is not None
        partitions = {each.partition: answer.topic_id for each in assignment.partitions}
        # What it was not given again it has given up now, and says so by another join.
        self._must_join = host.cooperative and bool(holding.partitions.keys() - partitions.keys())
        host.group.confirm(holding, answer, self._generation, partitions)

    async def _beat(self) -> None:
        holding = self._holding
        request = HeartbeatRequest(
            group_id=GROUP, member_id=holding.member_id, generation=self._generation
        )
        answer = await self._host.ask(request, _PATIENCE_MS)
        if answer is None:
            return
        if answer.reply.error is None:
            self._host.group.hears(holding, answer)
        elif answer.reply.error not in _NO_COORDINATOR:
            self._failed(answer.reply)

    def _failed(self, reply: GroupReply) -> None:
        holding = self._holding
        self._must_join = True
        if reply.error is GroupError.UNKNOWN_MEMBER_ID:
            holding.member_id = ""
        if reply.error in (GroupError.UNKNOWN_MEMBER_ID, GroupError.ILLEGAL_GENERATION):
            self._generation = holding.generation = -1
            holding.partitions = {}
        elif reply.error not in (*_NO_COORDINATOR, GroupError.REBALANCE_IN_PROGRESS):
            self._host.fail(f"{holding.name} is refused: {reply}")


def _sizes(topics: tuple[GroupTopic, ...]) -> list[tuple[str, int]]:
    return [(each.name, each.partition_count) for each in topics]
