"""Requests of the classic group protocol and their replies, free of any wire version."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.groups.error import GroupError
from headrace.groups.record import MemberProtocol
from headrace.groups.request import GroupReply, GroupRequest
from headrace.groups.topic import TopicRights

UNKNOWN_MEMBER_ID = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply(GroupReply):
    """The reply to JoinGroup; only the leader gets `members`."""

    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = UNKNOWN_MEMBER_ID
    skip_assignment: bool = False
    member_id: str = UNKNOWN_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest(GroupRequest[JoinReply]):
    """A JoinGroup request.

    Attributes:
        protocols: in the order of the member's preference.
        rebalance_timeout_ms: version 0 has none; its session timeout stands for it.
        require_member_id: the version knows MEMBER_ID_REQUIRED (4 and up, KIP-394).
        can_skip_assignment: the version knows `skip_assignment` (9 and up, KIP-814).
        rights: which topics the client may see; None where no authorizer restricts it.
    """

    member_id: str = UNKNOWN_MEMBER_ID
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    require_member_id: bool = True
    can_skip_assignment: bool = True
    rights: TopicRights | None = None

    def refused(self, error: GroupError) -> JoinReply:
        return JoinReply(error=error, member_id=self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply(GroupReply):
    """The reply to SyncGroup."""

    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest(GroupRequest[SyncReply]):
    """A SyncGroup request; only the leader sends `assignments`, by member id."""

    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)

    def refused(self, error: GroupError) -> SyncReply:
        return SyncReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply(GroupReply):
    """The reply to Heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest(GroupRequest[HeartbeatReply]):
    """A Heartbeat request."""

    member_id: str
    instance_id: str | None = None
    generation: int

    def refused(self, error: GroupError) -> HeartbeatReply:
        return HeartbeatReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """One member of LeaveGroup. An admin client names a static member by its instance id alone."""

    member_id: str = UNKNOWN_MEMBER_ID
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """The result of LeaveGroup for one member."""

    member_id: str
    instance_id: str | None
    error: GroupError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReply(GroupReply):
    """The reply to LeaveGroup."""

    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest(GroupRequest[LeaveReply]):
    """A LeaveGroup request; versions below 3 carry one member."""

    members: tuple[LeavingMember, ...]

    @property
    def is_leaving(self) -> bool:
        return True

    def refused(self, error: GroupError) -> LeaveReply:
        return LeaveReply(error=error)
