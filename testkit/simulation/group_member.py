"""Members of groups and other clients of a `GroupShard`, for tests: a request in one call."""

import struct
from typing import Any

from headrace.groups.classic.message import (
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from headrace.groups.consumer.message import ConsumerHeartbeat
from headrace.groups.offset.message import (
    CommitReply,
    CommitRequest,
    FetchedOffset,
    OffsetToCommit,
)
from headrace.groups.record import MemberProtocol
from headrace.model.ids import TopicPartition
from testkit.simulation.group_shard import GroupShard

CLICKS_0 = TopicPartition("clicks", 0)
VIEWS_0 = TopicPartition("views", 0)


def commit(
    shard: GroupShard, offset: int = 5, where: TopicPartition = CLICKS_0, **changes: Any
) -> CommitReply:
    fields: dict[str, Any] = {
        "group_id": "g",
        "offsets": {where: OffsetToCommit(offset=offset, leader_epoch=3, metadata="m")},
    }
    return shard.ask(CommitRequest(**fields | changes))


def fetch(shard: GroupShard, where: TopicPartition = CLICKS_0, **changes: Any) -> FetchedOffset:
    return shard.registry.fetch_offsets("g", [where], **changes)[where]


def subscription(*topics: str) -> bytes:
    """Return what a consumer sends with its JoinGroup: version, topics, no user data."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">i", -1)


def classic_member(shard: GroupShard, *topics: str, protocol_type: str = "consumer") -> str:
    """Make a stable classic group of one member at generation 1, and return the member id."""
    token = shard.send(
        JoinRequest(
            group_id="g",
            client_id="c",
            protocol_type=protocol_type,
            protocols=(MemberProtocol("range", subscription(*topics)),),
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=60_000,
            require_member_id=False,
        ),
    )
    shard.advance(0)
    reply = shard.answer(token)
    shard.ask(
        SyncRequest(group_id="g", member_id=reply.member_id, generation=reply.generation),
    )
    return str(reply.member_id)


def leave_classic(shard: GroupShard, member_id: str) -> None:
    members = (LeavingMember(member_id=member_id),)
    shard.ask(LeaveRequest(group_id="g", members=members))


def consumer_beat(shard: GroupShard, member_id: str = "m", epoch: int = 0, **changes: Any) -> Any:
    fields: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
    if epoch == 0:
        fields |= {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ("clicks",),
            "owned": frozenset(),
        }
    return shard.ask(ConsumerHeartbeat(**fields | changes))
